// Fast 64-bit hashes, the same on every machine and in every run. Not cryptographic.
#pragma once

#include <cstdint>
#include <string_view>

namespace tp {

// FNV-1a. To continue a hash with more bytes, pass the previous result as `hash`.
constexpr std::uint64_t hash_of(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The finalizer of splitmix64: a bijection that mixes every input bit into all output bits.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace tp
