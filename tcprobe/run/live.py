"""The worker on the live GPU: `python -m tcprobe.run.live [PTXAS LIMIT]`. The driver starts while Python imports."""

import sys
import threading

from tcprobe.run import driver

if __name__ == "__main__":
    threading.Thread(target=driver.wake, daemon=True).start()

    from tcprobe.run.gpu import Gpu
    from tcprobe.run.worker import main

    if sys.argv[1:]:
        from tcprobe.sass.toolchain import Ptxas

        main(lambda: Gpu(Ptxas(sys.argv[1], float(sys.argv[2]))), method="live")
    main(Gpu, method="live")
