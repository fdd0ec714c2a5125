// An adapter of the demo model with random numbers.
#pragma once

#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/random.h"

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tp::test {

class DemoAdapter {
 public:
  DemoAdapter() {
    constexpr std::size_t kHidden = 256;
    constexpr std::size_t kRank = 4;
    reference::Random random(7);
    std::vector<TestTensor> tensors;
    const auto add = [&](const std::string& module, std::size_t in, std::size_t out) {
      const std::string begin = "base_model.model.model.layers." + module;
      tensors.push_back({begin + ".lora_A.weight", "F32", {kRank, in}, bytes_of(random.numbers(kRank * in))});
      tensors.push_back(
          {begin + ".lora_B.weight", "F32", {out, kRank}, bytes_of(random.numbers(out * kRank))});
    };
    for (std::size_t layer = 0; layer < 4; ++layer) {
      add(fmt::format("{}.self_attn.q_proj", layer), kHidden, kHidden);
      add(fmt::format("{}.self_attn.o_proj", layer), kHidden, kHidden);
      add(fmt::format("{}.mlp.up_proj", layer), kHidden, 512);
      add(fmt::format("{}.mlp.down_proj", layer), 512, kHidden);
    }
    folder_.write("adapter_model.safetensors", safetensors_file(tensors));
    folder_.write("adapter_config.json", R"({"peft_type": "LORA", "r": 4, "lora_alpha": 0.25})");
  }

  std::string path() const { return folder_.path().string(); }

 private:
  TemporaryDirectory folder_;
};

}  // namespace tp::test
