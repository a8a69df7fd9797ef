"""The worker on the live GPU: `python -m tcprobe.backends.live`. The driver starts while Python imports."""

import threading

from tcprobe.backends import driver

if __name__ == "__main__":
    threading.Thread(target=driver.wake, daemon=True).start()

    from tcprobe.backends.gpu import Gpu
    from tcprobe.backends.worker import main

    main(Gpu, ahead=object)
