// Parameters that Open MPI reads from files as it starts. Environment variables outrank them.
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

// The value of OMPI_MCA_mtl with which Open MPI loads no network library, and nothing that the files exclude;
// empty if the files choose how messages are sent.
std::string mtl_without_fabrics(const std::vector<std::filesystem::path>& files);

}  // namespace tp
