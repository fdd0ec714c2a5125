// The tile registers that a *tile_kernels.cc is compiled for: AMX's own, or the same in plain C++.
#pragma once

#ifdef TP_EMULATED_TILES
#include "model/kernels/simd/tiles/tiles_emulated.h"
#else
#include "model/kernels/simd/tiles/tiles_amx.h"
#endif
