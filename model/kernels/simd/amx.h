// Intel's matrix unit, which a program must ask the kernel for.
#pragma once

namespace tp::kernels {

// Whether this process may use tiles of bf16 and int8, and their products are right. Asks for permission,
// which holds for all threads.
bool amx_is_usable();

}  // namespace tp::kernels
