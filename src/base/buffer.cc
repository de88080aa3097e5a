#include "base/buffer.h"
