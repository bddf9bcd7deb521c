"""Write into process 1, which may stand outside the filter."""

import os

os.close(os.open("/proc/1/mem", os.O_RDWR))
