// Parameters that Open MPI reads from files when it starts. Environment variables take precedence.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The files that Open MPI reads, in order of precedence.
std::vector<std::filesystem::path> mca_parameter_files();

// The value of a parameter in the first file that sets it; empty if no file does.
std::string mca_parameter(const std::vector<std::filesystem::path>& files, std::string_view name);

// A value for OMPI_MCA_<framework> that excludes `components`, such as "psm2,ofi" of mtl, and what the files
// exclude. Empty if the files select a component of this framework or of pml.
std::string mca_without(std::string_view components, std::string_view framework,
                        const std::vector<std::filesystem::path>& files);

}  // namespace tp
