"""Have the kernel start a program as root when something crashes."""

import os

os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
