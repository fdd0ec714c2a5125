// Errors about tensors of GGUF files have the names of the files.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/quantize/expect_written.h"
#include "tests/model/weights/gguf_copy.h"
#include "tests/reference/fixture.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::GgufBuilder;
using test::TemporaryDirectory;

// Writes a tensor of a file in another way.
using Change = std::function<void(const GgufFiles::Entry& entry, GgufBuilder& to)>;

// The error of loading the fixture's file with another version of one tensor.
std::string error_with(const std::string& fixture, const std::string& tensor, const Change& change) {
  const TemporaryDirectory directory;
  const GgufFiles files(test::write_gguf(reference::fixture(fixture), directory));
  GgufBuilder to;
  test::copy_metadata(files, to);
  for (const auto& [name, entry] : files.tensors()) {
    if (name == tensor)
      change(entry, to);
    else
      test::copy_tensor(entry, to);
  }
  EXPECT_NE(files.find(tensor), nullptr) << tensor;
  const std::filesystem::path damaged = directory.write("damaged.gguf", to.file());
  return test::error_of<CheckpointError>([&] {
    const auto source = GgufCheckpoint::open(damaged);
    const Model model(make_spec(load_config(damaged)), *source, {0, 1});
  });
}

void leave_out(const GgufFiles::Entry& /*entry*/, GgufBuilder& /*to*/) {}

void add_another(const GgufFiles::Entry& entry, GgufBuilder& to) {
  test::copy_tensor(entry, to);
  const std::string& name = entry.tensor.name;
  const std::string block = name.substr(0, name.find('.', std::string("blk.").size()) + 1);
  to.tensor(block + "foo.weight", {1}, "F32", test::le(1.0F));
}

void cut_columns(const GgufFiles::Entry& entry, GgufBuilder& to) {
  std::vector<std::uint64_t> shape(entry.tensor.shape.begin(), entry.tensor.shape.end());
  shape.back() /= 2;
  const std::string bytes = test::bytes_in(entry);
  to.tensor(entry.tensor.name, shape, "F32", bytes.substr(0, bytes.size() / 2));
}

void damage(const GgufFiles::Entry& entry, GgufBuilder& to) {
  std::string bytes = test::bytes_in(entry);
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(float))
    bytes.replace(i, sizeof(float), test::le(std::numeric_limits<float>::quiet_NaN()));
  const std::vector<std::uint64_t> shape(entry.tensor.shape.begin(), entry.tensor.shape.end());
  to.tensor(entry.tensor.name, shape, "F32", bytes);
}

TEST(GgufErrors, NameTheTensorsOfTheFile) {
  struct Case {
    const char* fixture;
    const char* tensor;
    Change change;
    const char* found;
  };
  const Case cases[] = {
      {"llama-gqa", "blk.1.attn_q.weight", leave_out, "there is no tensor blk.1.attn_q.weight"},
      {"llama-gqa", "blk.0.ffn_norm.weight", leave_out, "there is no tensor blk.0.ffn_norm.weight"},
      {"mixtral-4e", "blk.0.ffn_up_exps.weight", leave_out, "there is no tensor blk.0.ffn_up_exps.weight"},
      {"llama-gqa", "blk.0.attn_q.weight", add_another, "the checkpoint has a tensor blk.0.foo.weight"},
      {"gpt2", "blk.1.attn_output.weight", add_another, "the checkpoint has a tensor blk.1.foo.weight"},
      {"llama-gqa", "blk.1.ffn_down.weight", cut_columns, "blk.1.ffn_down.weight is ["},
      {"mixtral-4e", "blk.1.ffn_down_exps.weight", cut_columns, "blk.1.ffn_down_exps.weight is ["},
      {"llama-gqa", "blk.1.attn_k.weight", damage, "cannot load blk.1.attn_k.weight: expected numbers"},
      {"llama-gqa", "output_norm.weight", damage, "cannot load output_norm.weight: expected numbers"},
      {"llama-gqa", "token_embd.weight", damage, "cannot load token_embd.weight: expected numbers"},
      {"mixtral-4e", "blk.1.ffn_gate_exps.weight", damage,
       "cannot load blk.1.ffn_gate_exps.weight (expert 0): expected numbers"},
      {"gpt2", "blk.0.attn_qkv.weight", damage, "cannot load blk.0.attn_qkv.weight: expected numbers"},
  };
  for (const Case& each : cases) {
    const std::string error = error_with(each.fixture, each.tensor, each.change);
    EXPECT_CONTAINS(error, each.found);
    for (const char* const other : {"model.layers", "transformer.h", "block_sparse_moe", "_proj"})
      EXPECT_EQ(error.find(other), error.npos) << error;
  }
}

}  // namespace
}  // namespace tp
