"""The worker on the live GPU: `python -m tcprobe.run.live`. The driver starts while Python imports."""

import threading

from tcprobe.run import driver

if __name__ == "__main__":
    threading.Thread(target=driver.wake, daemon=True).start()

    from tcprobe.run.gpu import Gpu
    from tcprobe.run.worker import main

    main(Gpu, method="live")
