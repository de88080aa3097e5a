#include "base/executor.h"
