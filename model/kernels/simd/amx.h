// Intel's matrix unit (AMX). A program must request its use from the kernel.
#pragma once

namespace tp::kernels {

// Whether this process may use tiles of bf16 and int8, and their products are correct. Requests permission
// for all threads.
bool amx_is_usable();

}  // namespace tp::kernels
