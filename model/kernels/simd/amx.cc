#include "model/kernels/simd/amx.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tp::kernels {
namespace {

bool processor_has_amx() {
  constexpr unsigned kBf16 = 1U << 22;
  constexpr unsigned kTile = 1U << 24;
  constexpr unsigned kInt8 = 1U << 25;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kAll = kBf16 | kTile | kInt8;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAll) == kAll;
}

// Whether the operating system saves tiles and their configuration when it switches threads.
bool system_keeps_tiles() {
  constexpr unsigned kOsxsave = 1U << 27;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsxsave) == 0) return false;
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  constexpr unsigned kTiles = 3U << 17;
  return (eax & kTiles) == kTiles;
}

// Linux grants a process memory for tiles on request. Source: Linux, Documentation/x86/xstate.rst.
bool permission_is_granted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool amx_is_permitted() {
  static const bool permitted = processor_has_amx() && system_keeps_tiles() && permission_is_granted();
  return permitted;
}

}  // namespace tp::kernels

#else

namespace tp::kernels {
bool amx_is_permitted() { return false; }
}  // namespace tp::kernels

#endif
