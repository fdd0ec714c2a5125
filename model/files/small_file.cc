#include "model/files/small_file.h"

#include "tp/internal/require.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ios>
#include <system_error>

namespace tp {

std::string small_file_text(const std::filesystem::path& file, const std::string& where, std::size_t max) {
  std::error_code ignored;
  require<ConfigError>(!std::filesystem::is_directory(file, ignored),
                       "cannot read {}: expected a file, found a folder; did Docker create it because the "
                       "file did not exist?",
                       where);
  std::ifstream stream(file, std::ios::binary);
  require<ConfigError>(stream.is_open(), "cannot read {}: {}", where, std::strerror(errno));
  std::string text(max + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  require<ConfigError>(!stream.bad(), "cannot read {}: {}", where, std::strerror(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  require<ConfigError>(text.size() <= max, "{}: expected at most {} bytes, found more", where, max);
  return text;
}

}  // namespace tp
