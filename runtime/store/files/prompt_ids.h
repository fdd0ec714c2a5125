// The identities of stored prompts.
#pragma once

#include "runtime/protocol/store_work.h"
#include "tp/token_id.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The id that precedes the first block of texts with this salt.
PromptId id_of_salt(const Sha256Digest& fingerprint, std::string_view salt);
// The id of a block with these tokens after the block `before`.
PromptId id_after(const PromptId& before, std::span<const TokenId> tokens);
// The ids of consecutive whole blocks after `before`, [tokens.size() / block_size].
std::vector<PromptId> ids_after(PromptId before, std::span<const TokenId> tokens, std::size_t block_size);

// Lower-case hexadecimal digits of the first `bytes` bytes.
std::string hex_of(const Sha256Digest& digest, std::size_t bytes = sizeof(Sha256Digest));

struct PromptIdHash {
  std::size_t operator()(const PromptId& id) const;
};

}  // namespace tp
