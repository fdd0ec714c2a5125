// Whether ranks have the same files.
#pragma once

#include "model/files/mapped_file.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Goes on with `hash` over what identifies a file: its name, its size, its header and a few samples of its
// data, in which another training of the same model differs.
std::uint64_t hash_of_file(const MappedFile& file, std::size_t header_size, std::uint64_t hash);

}  // namespace tp
