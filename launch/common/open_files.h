#pragma once

#include <cstddef>

namespace tp {

// Raises this process's limit of open files as far as possible. Returns how many connections may then be
// open, at most `wanted`. `per_connection`: open files of a connection.
std::size_t allow_many_connections(std::size_t wanted, std::size_t per_connection = 1);

}  // namespace tp
