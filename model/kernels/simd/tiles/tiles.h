// The tile registers for which a *tile_kernels.cc is compiled: AMX's, or emulations in plain C++.
#pragma once

#ifdef TP_EMULATED_TILES
#include "model/kernels/simd/tiles/tiles_emulated.h"
#else
#include "model/kernels/simd/tiles/tiles_amx.h"
#endif
