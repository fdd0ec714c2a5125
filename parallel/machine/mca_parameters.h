// What files tell Open MPI, which reads them as it starts. A variable of the environment outranks them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The files that Open MPI reads, the one that counts first.
std::vector<std::filesystem::path> mca_parameter_files();

// The value that a parameter has in the first of the files that sets it; empty if none does.
std::string mca_parameter(const std::vector<std::filesystem::path>& files, std::string_view name);

// What the variable OMPI_MCA_mtl must be so that Open MPI loads no library of a network, and nothing else
// that the files exclude; empty if they choose how messages are sent.
std::string mtl_without_fabrics(const std::vector<std::filesystem::path>& files);

}  // namespace tp
