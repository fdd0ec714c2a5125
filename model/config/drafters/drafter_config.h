// Configs of trained drafters, which draft a target's tokens from its residual streams. Each project has its
// own layout of config.json.
#pragma once

#include "model/files/json_node.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tp {

enum class DrafterKind : std::uint8_t {
  none,    // not a drafter
  eagle3,  // drafts one token after another. Source: Li et al., EAGLE-3, 2025
  dflash,  // drafts a block of tokens at once. Source: z-lab, DFlash, 2025
  dspark,  // DFlash whose logits also depend on the draft token before. Source: DeepSeek-AI, DSpark, 2026
};

// "EAGLE-3", for messages.
std::string_view name_of(DrafterKind kind);

struct DrafterConfig {
  DrafterKind kind = DrafterKind::none;
  // The target's streams that the drafter reads, in order: the number of layers before each of them. 0 is the
  // embedding. Empty: see captured_places.
  std::vector<std::size_t> places{};
  std::size_t target_hidden_size = 0;  // 0: hidden_size
  std::size_t draft_vocab_size = 0;    // rows of the LM head; 0: vocab_size
  bool norm_before_residual = false;   // the residual stream begins with the normed state
  bool norm_output = false;            // the next token's input is the state after the final norm
  bool fc_norm = false;                // a norm of each stream before their projection
  bool norm_before_fc = false;         // a norm of all streams together before their projection

  // DFlash and DSpark:
  std::size_t layers = 0;           // num_hidden_layers
  std::size_t target_layers = 0;    // num_target_layers; 0: unknown
  std::size_t block_size = 0;       // tokens of a block, including the known token before the draft tokens
  TokenId mask_token = -1;          // stands for each draft token of a block
  bool sample_from_anchor = false;  // the known token's row drafts a token, too
  std::size_t markov_rank = 0;      // size of the vectors of tokens before draft tokens
  bool enable_confidence_head = false;
  bool confidence_head_with_markov = false;

  bool drafts_blocks() const { return kind == DrafterKind::dflash || kind == DrafterKind::dspark; }

  bool operator==(const DrafterConfig&) const = default;
};

// Returns the document of a drafter with the fields that other models' configs have: the members of nested
// objects are at the top, and `architectures` has the family's name. Other documents stay as they are.
// `where` names the file. Throws ConfigError for kinds and variants that are not supported.
nlohmann::json drafter_fields(const nlohmann::json& document, const std::string& where);

// Reads the fields of drafter_fields. Throws CheckpointError for values of the wrong type, and ConfigError
// for values that are not supported.
void read_drafter(const JsonNode& fields, const std::string& where, DrafterConfig& config);

// The number of streams that the drafter reads.
std::size_t captured_streams(const DrafterConfig& config);
// The places of these streams in a target with this many layers. Throws ConfigError if the target has too few
// layers.
std::vector<std::size_t> captured_places(const DrafterConfig& config, std::size_t target_layers);
// The places in words: "after 2, 16, 29 layers of the target", or a rule if they depend on the target's
// layers.
std::string describe_places(const DrafterConfig& config);

}  // namespace tp
