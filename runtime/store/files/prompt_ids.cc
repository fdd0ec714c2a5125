#include "runtime/store/files/prompt_ids.h"

#include <cstring>

#include <fmt/format.h>

namespace tp {

PromptId id_of_salt(const Sha256Digest& fingerprint, std::string_view salt) {
  return Sha256().add(std::as_bytes(std::span(fingerprint))).add(std::as_bytes(std::span(salt))).finish();
}

PromptId id_after(const PromptId& before, std::span<const TokenId> tokens) {
  return Sha256().add(std::as_bytes(std::span(before))).add(std::as_bytes(tokens)).finish();
}

std::vector<PromptId> ids_after(PromptId before, std::span<const TokenId> tokens, std::size_t block_size) {
  std::vector<PromptId> ids;
  for (; tokens.size() >= block_size; tokens = tokens.subspan(block_size)) {
    before = id_after(before, tokens.first(block_size));
    ids.push_back(before);
  }
  return ids;
}

std::string hex_of(const Sha256Digest& digest, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::size_t PromptIdHash::operator()(const PromptId& id) const {
  std::size_t hash = 0;
  std::memcpy(&hash, id.data(), sizeof hash);
  return hash;
}

}  // namespace tp
