#include "base/disk.h"
