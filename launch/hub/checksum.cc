#include "launch/hub/checksum.h"

#include "launch/hub/download_error.h"
#include "tp/internal/require.h"

#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace tp {
namespace {

void require_success(int result) {
  require<DownloadError>(result == 1,
                         "cannot compute a checksum: expected OpenSSL to know SHA-1 and SHA-256, found an "
                         "error; check the OpenSSL configuration of this machine");
}

}  // namespace

struct Checksum::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() = default;
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Checksum::Checksum(ChecksumKind kind, std::uint64_t size) : state_(std::make_unique<State>()) {
  const EVP_MD* const algorithm = kind == ChecksumKind::sha256 ? EVP_sha256() : EVP_sha1();
  require_success(EVP_DigestInit_ex(state_->context, algorithm, nullptr));
  if (kind == ChecksumKind::git_blob) add(fmt::format("blob {}", size) + '\0');
}

Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::add(std::string_view bytes) {
  require_success(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

std::string Checksum::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  require_success(EVP_DigestFinal_ex(state_->context, digest.data(), &size));
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace tp
