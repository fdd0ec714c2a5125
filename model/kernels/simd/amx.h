// Intel's matrix unit (AMX). A program must request its use from the kernel.
#pragma once

namespace tp::kernels {

// Whether this process may use tiles of bf16 and int8. Requests permission for all threads.
bool amx_is_permitted();

// Whether the products of this build's tiles are correct. Needs permission.
bool amx_tiles_work();

}  // namespace tp::kernels
