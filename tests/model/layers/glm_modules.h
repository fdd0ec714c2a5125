// GLM-5.3 under the names of transformers' modules.
#pragma once

#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/reference/fixture.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp::test {

// Appends the rows of a tensor to those of another one.
inline void append_rows(const Values& rows, Values& to) {
  if (to.shape.empty()) to.shape = {0};
  const std::size_t all = to.shape.front() + rows.shape.front();
  to.shape = rows.shape;
  to.shape.front() = all;
  to.elements.insert(to.elements.end(), rows.elements.begin(), rows.elements.end());
}

// Experts' matrices as stacks, with gates above ups. `prefix`: of an expert's number.
inline void add_stacks_of_experts(const Tensors& from, const std::string& prefix, Tensors& to) {
  Values gate_up;
  Values down;
  std::size_t experts = 0;
  for (; from.contains(prefix + std::to_string(experts) + ".up_proj.weight"); ++experts) {
    const std::string one = prefix + std::to_string(experts) + ".";
    append_rows(from.at(one + "gate_proj.weight"), gate_up);
    append_rows(from.at(one + "up_proj.weight"), gate_up);
    append_rows(from.at(one + "down_proj.weight"), down);
  }
  for (Values* const stack : {&gate_up, &down}) {
    stack->shape.front() /= experts;
    stack->shape.insert(stack->shape.begin(), experts);
  }
  to[prefix + "gate_up_proj"] = std::move(gate_up);
  to[prefix + "down_proj"] = std::move(down);
}

// The names of modules that differ from the published names in a part only.
inline std::string module_name(std::string name) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kParts = {
      {{".hc_attn_", ".attn_hc."},
       {".hc_ffn_", ".ffn_hc."},
       {".self_attn.f_a_proj.", ".self_attn.forget_gate.f_a_proj."},
       {".self_attn.f_b_proj.", ".self_attn.forget_gate.f_b_proj."},
       {".self_attn.A_log", ".self_attn.forget_gate.A_log"},
       {".self_attn.dt_bias", ".self_attn.forget_gate.dt_bias"}}};
  for (const auto& [published, other] : kParts) {
    if (const std::size_t place = name.find(published); place != name.npos)
      name.replace(place, std::string(published).size(), other);
  }
  return name;
}

// Writes the fixture's tensors under the names of modules. Queries, keys and values share a convolution.
inline void write_glm_modules(const std::filesystem::path& folder, const nlohmann::json& config,
                              const reference::Fixture& fixture) {
  const std::string queries = "q_conv1d.weight";
  const std::string first_expert = "0.gate_proj.weight";
  const Tensors published = tensors_of(fixture.folder);
  Tensors modules;
  for (const auto& [name, values] : published) {
    if (name.ends_with(queries)) {
      const std::string prefix = name.substr(0, name.size() - queries.size());
      for (const char* const part : {"q", "k", "v"})
        append_rows(published.at(prefix + part + "_conv1d.weight"), modules[prefix + "conv1d.weight"]);
    } else if (name.ends_with(".mlp.experts." + first_expert)) {
      add_stacks_of_experts(published, name.substr(0, name.size() - first_expert.size()), modules);
    } else if (name.find("_conv1d.") == name.npos && name.find(".mlp.experts.") == name.npos) {
      modules[module_name(name)] = values;
    }
  }
  write_checkpoint(folder, config, modules);
}

}  // namespace tp::test
