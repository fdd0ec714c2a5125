#pragma once

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/model_tensors.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/reference/fixture.h"

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

// A fixture with further tensors, such as norms of the heads of queries and keys, which no fixture has.
class ChangedModel {
 public:
  // `field` of its config becomes true.
  explicit ChangedModel(const std::string& name, const std::string& field = "")
      : fixture_(reference::fixture(name)) {
    std::ifstream stream(fixture_.folder / "config.json");
    json_ = nlohmann::json::parse(stream);
    const auto source = SafetensorsCheckpoint::open(fixture_.folder);
    for (const ModelTensor& tensor : model_tensors(make_spec(load_config(fixture_.folder)), *source))
      add(tensor.name, tensor.shape, read_whole(*source, tensor.name, tensor.shape));
    if (!field.empty()) json_[field] = true;
  }

  void add(const std::string& name, MatrixShape shape, const std::vector<float>& values) {
    std::vector<std::size_t> extents = {shape.columns};
    if (shape.rows > 1) extents.insert(extents.begin(), shape.rows);
    tensors_.push_back({name, "F32", extents, bytes_of(values)});
  }

  const std::vector<TestTensor>& tensors() const { return tensors_; }
  const std::vector<TokenId>& prompt() const { return fixture_.prompt; }
  CheckpointConfig config() const { return parse_config(json_.dump(), "config.json"); }
  void write(const TemporaryDirectory& directory) const {
    directory.write("config.json", json_.dump());
    directory.write("model.safetensors", safetensors_file(tensors_));
  }

 private:
  reference::Fixture fixture_;
  nlohmann::json json_;
  std::vector<TestTensor> tensors_;
};

}  // namespace tp::test
