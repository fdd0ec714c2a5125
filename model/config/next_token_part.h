// The tensors of a multi-token prediction layer outside its block.
#pragma once

#include "model/config/part_table.h"

#include <array>
#include <string>

namespace tp {

struct NextTokenNames {
  std::string projection;
  std::string embedding_norm;
  std::string state_norm;
  std::string final_norm;
  // If these tensors are missing, the layer uses the model's.
  std::string embed_tokens{};
  std::string lm_head{};
};

inline constexpr std::array kNextTokenTensors = std::to_array<PartTensor<NextTokenNames>>({
    {&NextTokenNames::projection, "eh_proj", "nextn.eh_proj"},
    {&NextTokenNames::embedding_norm, "enorm", "nextn.enorm", gguf_norm, false},
    {&NextTokenNames::state_norm, "hnorm", "nextn.hnorm", gguf_norm, false},
    {&NextTokenNames::final_norm, "shared_head.norm", "nextn.shared_head_norm", gguf_norm, false},
    {&NextTokenNames::embed_tokens, "embed_tokens", "nextn.embed_tokens"},
    {&NextTokenNames::lm_head, "shared_head.head", "nextn.shared_head_head"},
});

}  // namespace tp
