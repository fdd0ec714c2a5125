// Loading on ranks that do not share a page cache.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/packed_cache.h"
#include "model/weights/two_phase_reader.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/file_text.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/quantized_model.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <algorithm>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tp {
namespace {

using test::TemporaryDirectory;

// Small enough that every matrix takes several rounds.
constexpr std::size_t kRoundBytes = 1000;

// Returns everything that this rank loads of a model, as one file.
std::string loaded_from(const std::filesystem::path& model, const ColumnReader* columns,
                        std::optional<WeightType> type) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  const std::unique_ptr<WeightSource> source = open_checkpoint(model);
  if (columns != nullptr) source->read_exactly(*columns);
  const TemporaryDirectory folder;
  PackedCache cache(folder.path(), {model.string(), {source->fingerprint(), 0}, type, 0, tp});
  cache.rebuild();
  const Model decoder(make_spec(load_config(model)), *source, tp, type, {}, &cache);
  EXPECT_EQ(cache.finish(), "");
  return file_text(folder.path() / folder.files().at(0));
}

void expect_same_weights(const std::filesystem::path& model, std::optional<WeightType> type) {
  Communicator& comm = test::world();
  if (load_config(model).num_attention_heads < comm.size()) return;
  const TwoPhaseReader columns(comm, kRoundBytes);
  const std::string mapped = loaded_from(model, nullptr, type);
  EXPECT_GT(mapped.size(), 4096U);
  EXPECT_EQ(loaded_from(model, &columns, type) == mapped, true) << model;
}

TEST(TwoPhaseReading, GivesTheWeightsOfEveryFamilyInTheirTypes) {
  for (const reference::Fixture& fixture : reference::fixtures_of(supported_architectures()))
    expect_same_weights(fixture.folder, {});
}

TEST(TwoPhaseReading, GivesTheWeightsOfGgufFilesInTheirTypes) {
  for (const reference::Fixture& fixture : reference::gguf_fixtures())
    expect_same_weights(fixture.folder, {});
}

TEST(TwoPhaseReading, GivesTheWeightsOfQuantizedCheckpointsInTheirTypes) {
  using test::GroupFormat;
  const test::Plain plain = test::plain_random();
  for (const test::QuantizedCase& of :
       {test::QuantizedCase{nullptr, GroupFormat::awq, 128, false},
        test::QuantizedCase{nullptr, GroupFormat::gptq, 64, false},
        test::QuantizedCase{nullptr, GroupFormat::gptq, 128, false, 8, test::Order::by_activations},
        test::QuantizedCase{nullptr, GroupFormat::packed_zeros, 32, true},
        test::QuantizedCase{nullptr, GroupFormat::int8, 0, true, 8},
        test::four_bit_floats(nullptr, reference::FourBitFormat::packed, 16),
        test::four_bit_floats(nullptr, reference::FourBitFormat::nf4_double, 64),
        test::QuantizedCase{nullptr, GroupFormat::awq, 0, false, 8, test::Order::plain,
                            test::F8Blocks{128, 128, "F32"}}}) {
    test::Checkpoints files;
    test::convert(plain, of, files);
    expect_same_weights(files.quantized.path(), {});
    expect_same_weights(files.quantized.path(), WeightType::bf16);
  }
}

TEST(TwoPhaseReading, GivesWeightsThatAreConverted) {
  expect_same_weights(reference::fixture("llama-headdim-bias").folder, WeightType::int4);
}

// A model of 42 MB with a copy per rank, like on hosts with separate disks.
class ModelOfEveryRank {
 public:
  ModelOfEveryRank() {
    directory_.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 512,
        "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 8, "vocab_size": 4096, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "torch_dtype": "bfloat16", "tie_word_embeddings": false})");
    add("model.embed_tokens.weight", 4096, 512);
    for (int layer = 0; layer < 4; ++layer) {
      const std::string block = fmt::format("model.layers.{}.", layer);
      add_norm(block + "input_layernorm.weight");
      for (const char* name : {"q", "k", "v", "o"})
        add(fmt::format("{}self_attn.{}_proj.weight", block, name), 512, 512);
      add_norm(block + "post_attention_layernorm.weight");
      add(block + "mlp.gate_proj.weight", 2048, 512);
      add(block + "mlp.up_proj.weight", 2048, 512);
    }
    add_norm("model.norm.weight");
    add("lm_head.weight", 4096, 512);
    for (int layer = 0; layer < 4; ++layer)
      add(fmt::format("model.layers.{}.mlp.down_proj.weight", layer), 512, 2048);
    file_ = directory_.write("model.safetensors", test::safetensors_file(tensors_));
    tensors_.clear();
  }

  const std::filesystem::path& folder() const { return directory_.path(); }
  const std::filesystem::path& file() const { return file_; }
  std::size_t bytes() const { return std::filesystem::file_size(file_); }

  // Drops the file's pages, if the file system allows.
  void forget() const {
    const int descriptor = ::open(file_.c_str(), O_RDWR);
    ::fsync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }

  // Returns the bytes of the file in memory.
  std::size_t resident() const {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const int descriptor = ::open(file_.c_str(), O_RDONLY);
    void* const mapping = ::mmap(nullptr, bytes(), PROT_READ, MAP_SHARED, descriptor, 0);
    std::vector<unsigned char> pages((bytes() + page - 1) / page);
    EXPECT_EQ(::mincore(mapping, bytes(), pages.data()), 0);
    ::munmap(mapping, bytes());
    ::close(descriptor);
    return page * static_cast<std::size_t>(std::ranges::count_if(pages, [](auto one) { return one & 1; }));
  }

  std::size_t tensors() const { return count_; }

 private:
  void add(const std::string& name, std::size_t rows, std::size_t columns) {
    ++count_;
    tensors_.push_back({name, "BF16", {rows, columns}, std::string(rows * columns * 2, '\0')});
  }
  void add_norm(const std::string& name) {
    tensors_.push_back({name, "BF16", {512}, std::string(1024, '\0')});
  }

  std::vector<test::TestTensor> tensors_;
  std::size_t count_ = 0;
  TemporaryDirectory directory_;
  std::filesystem::path file_;
};

std::size_t sum_over_ranks(Communicator& comm, std::size_t value) {
  std::size_t sum = 0;
  for (const std::size_t one : exchange_values(comm, std::span<const std::size_t>(&value, 1))) sum += one;
  return sum;
}

// Reading the header before loading already reads ahead, which counts in `before`.
TEST(TwoPhaseReading, FetchesTheFileOnceOverAllHosts) {
  Communicator& comm = test::world();
  const ModelOfEveryRank model;
  model.forget();
  if (sum_over_ranks(comm, model.resident()) != 0)
    GTEST_SKIP() << "the file system of " << model.folder() << " keeps pages in memory";
  const TwoPhaseReader columns(comm);
  const std::unique_ptr<WeightSource> source = open_checkpoint(model.folder());
  const std::size_t before = sum_over_ranks(comm, model.resident());
  source->read_exactly(columns);
  const Model decoder(make_spec(load_config(model.folder())), *source, {comm.rank(), comm.size()}, {});
  const std::size_t after = sum_over_ranks(comm, model.resident());
  EXPECT_GE(after, model.bytes() * 99 / 100);
  // Linux reads up to two windows of 128 KiB ahead beyond a rank's part of each tensor. Without two phases,
  // every rank would read the whole file.
  constexpr std::size_t kReadAhead = 256 << 10;
  const std::size_t ahead = comm.size() * model.tensors() * kReadAhead;
  EXPECT_TRUE(comm.size() == 1 || ahead < (comm.size() - 1) * model.bytes() * 3 / 4)
      << "the test proves nothing";
  EXPECT_LE(after - before, model.bytes() * 102 / 100 + ahead);
}

// Cuts the file. The last matrix is read by columns, so the missing part is never accessed in the mapping.
void cut_the_end(const std::filesystem::path& file) {
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - (1 << 20));
}

std::string error_of_loading(const std::filesystem::path& model, const std::filesystem::path& cut_short,
                             const std::string& config) {
  Communicator& comm = test::world();
  const TwoPhaseReader columns(comm, kRoundBytes);
  return test::error_of<AgreedError>([&] {
    fail_together(comm, [&] {
      const std::unique_ptr<WeightSource> source = open_checkpoint(model);
      source->read_exactly(columns);
      if (!cut_short.empty()) cut_the_end(cut_short);
      const Model decoder(make_spec(load_config(config.empty() ? model : std::filesystem::path(config))),
                          *source, {comm.rank(), comm.size()}, {});
    });
  });
}

TEST(TwoPhaseReading, EndsTogetherWhenARankCannotReadItsFile) {
  Communicator& comm = test::world();
  const ModelOfEveryRank model;
  const bool is_last = comm.rank() + 1 == comm.size();
  const std::string error = error_of_loading(model.folder(), is_last ? model.file() : "", "");
  EXPECT_CONTAINS(error, "model.safetensors: the file ends at byte ");
}

TEST(TwoPhaseReading, EndsTogetherWhenARankFailsBetweenTwoReads) {
  Communicator& comm = test::world();
  const ModelOfEveryRank model;
  const TemporaryDirectory other;
  std::string config = file_text(model.folder() / "config.json");
  config.replace(config.find("\"num_hidden_layers\": 4"), 22, "\"num_hidden_layers\": 5");
  other.write("config.json", config);
  const bool is_last = comm.rank() + 1 == comm.size();
  EXPECT_CONTAINS(error_of_loading(model.folder(), "", is_last ? other.path().string() : ""),
                  "there is no tensor model.layers.4.");
}

TEST(TwoPhaseReading, IsForSeveralHosts) {
  EXPECT_FALSE(reads_in_two_phases(1));
  EXPECT_TRUE(reads_in_two_phases(2));
}

}  // namespace
}  // namespace tp
