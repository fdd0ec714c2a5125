// Prompts on disk (runtime/store): how fast a rank's store writes and reads, relative to plain writes and
// reads of files of the same sizes; and the time to the first token of prompts that are computed and
// restored. Texts of both are compared.
//
//   mpirun -np 2 build/bin/bench_kv_store --store DIR [--config bench/shapes/llama-1b.json] [--weights int8]
//     [--prompts 1000,4000,20000] [--pairs 12] [--threads 1]

#include "bench/on_ranks.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/memory/kv_cache.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "runtime/store/files/rank_store.h"
#include "tests/reference/random.h"
#include "tp/engine.h"
#include "tp/internal/require.h"

#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockSize = 32;
constexpr KvType kKvType = KvType::bf16;

struct Options {
  fs::path config = "bench/shapes/llama-1b.json";
  fs::path store;
  std::string weights = "int8";
  std::vector<std::size_t> prompts = {1000, 4000, 20000};
  std::size_t pairs = 12;
  std::size_t runs = 8;  // number of files per head in one measurement
  std::size_t threads = 1;
};

// Writes the files' pages to the disk and removes them from the page cache, so that the next read comes from
// the disk.
void forget_pages(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const int file = entry.is_regular_file() ? ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) continue;
    ::fdatasync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

// The store of one rank that has all heads of the model.
class OneRank {
 public:
  OneRank(const ModelSpec& spec, const Options& options)
      : options_(options),
        layouts_(Model::shape_of(spec, SyntheticWeights(DType::bf16, 3), {0, 1}, WeightType::bf16)
                     .kv_layouts(kKvType, kBlockSize)),
        cache_(layouts_, options.runs * run_),
        folder_(options.store, "bench", "bench_kv_store"),
        store_(folder_, parts_of(spec, {0, 1}, cache_, std::vector<std::vector<StatePart>>(layouts_.size())),
               1, 0, {}) {
    reference::Random random(3);
    for (std::size_t layer = 0; layer < layouts_.size(); ++layer) {
      const kernels::PagedCache& cache = cache_.layer(layer);
      for (std::size_t block = 0; block < options.runs * run_; ++block) {
        for (std::size_t head = 0; head < layouts_[layer].kv_heads; ++head) {
          std::byte* const memory = cache.head(block, head);
          for (std::size_t i = 0; i < layouts_[layer].head_bytes(); i += 64)
            memory[i] = static_cast<std::byte>(random.integer(1, 255));
        }
      }
    }
  }

  // Writes all runs to new files. Returns the seconds.
  double write() {
    fs::remove_all(folder_.path());
    const StoreFolder again(options_.store, "bench", "bench_kv_store");
    StoreWork work;
    for (std::size_t run = 0; run < options_.runs; ++run) work.saves.push_back({next_++, {run_of(run)}});
    saves_ += options_.runs;
    return run_until(std::move(work), [&](const StoreReport& report) { return report.saves == saves_; });
  }

  // Reads all runs into the cache. Returns the seconds.
  double read() {
    StoreTask task{next_++, {}};
    for (std::size_t run = 0; run < options_.runs; ++run) task.runs.push_back(run_of(run));
    StoreWork work;
    work.loads.push_back(task);
    return run_until(std::move(work), [&](const StoreReport& report) {
      if (report.ended_loads == 0) return false;
      require<ConfigError>(report.loads[0].failed_run == options_.runs,
                           "expected to read all runs, failed at {}", report.loads[0].failed_run);
      return true;
    });
  }

  const fs::path& folder() const { return folder_.path(); }

 private:
  template <class Done>
  double run_until(StoreWork work, const Done& done) {
    const Stopwatch watch;
    StoreReport report = store_.run(std::move(work));
    while (!done(report)) {
      require<ConfigError>(report.writes, "cannot store: {}", report.note.data());
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      report = store_.run({});
    }
    return watch.seconds();
  }

  StoredRun run_of(std::size_t run) const {
    StoredRun one{.tokens = std::vector<TokenId>(run_ * kBlockSize, static_cast<TokenId>(run))};
    one.id.fill(static_cast<std::uint8_t>(run + 1));
    for (std::size_t i = 0; i < run_; ++i) one.blocks.push_back(static_cast<BlockId>(run * run_ + i));
    return one;
  }

  const Options& options_;
  std::size_t run_ = blocks_per_run(kBlockSize);
  std::vector<kernels::KvLayout> layouts_;
  KvCache cache_;
  StoreFolder folder_;
  RankStore store_;
  std::uint64_t next_ = 1;
  std::uint64_t saves_ = 0;
};

// Plain files of the same sizes, which are written from one buffer and read into it.
class PlainFiles {
 public:
  PlainFiles(const fs::path& like, fs::path folder) : folder_(std::move(folder)) {
    for (const auto& entry : fs::directory_iterator(like)) sizes_.push_back(entry.file_size());
    buffer_.resize(*std::ranges::max_element(sizes_), 'x');
    for (const std::uintmax_t size : sizes_) bytes_ += size;
  }

  std::uintmax_t bytes() const { return bytes_; }
  const fs::path& folder() const { return folder_; }

  double write() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    return for_all(O_WRONLY | O_CREAT,
                   [&](int file, std::size_t size) { return ::write(file, buffer_.data(), size); });
  }
  double read() {
    return for_all(O_RDONLY, [&](int file, std::size_t size) { return ::read(file, buffer_.data(), size); });
  }

 private:
  template <class Transfer>
  double for_all(int flags, const Transfer& transfer) {
    const Stopwatch watch;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const int file = ::open((folder_ / std::to_string(i)).c_str(), flags | O_CLOEXEC, 0600);
      const bool is_whole = file >= 0 && transfer(file, sizes_[i]) == static_cast<ssize_t>(sizes_[i]);
      if (file >= 0) ::close(file);
      require<ConfigError>(is_whole, "cannot transfer {} bytes in {}; is the disk full?", sizes_[i],
                           folder_.string());
    }
    return watch.seconds();
  }

  fs::path folder_;
  std::vector<std::uintmax_t> sizes_;
  std::vector<char> buffer_;
  std::uintmax_t bytes_ = 0;
};

// Measures both alternately. Prints the speed of `one` and its ratio to `other`.
template <class One, class Other>
void compare(const char* what, double bytes, std::size_t pairs, const One& one, const Other& other) {
  const Pairs measured = measure_pairs(pairs, one, other);
  fmt::print("{}: {:.2f} GB/s, {} of plain files\n", what, bytes / measured.one.median / 1e9,
             bench::with_bounds(measured.ratio, 2));
  std::fflush(stdout);
}

void measure_files(const Options& options) {
  OneRank rank(make_spec(load_config(options.config)), options);
  rank.write();
  PlainFiles plain(rank.folder(), options.store / "plain");
  plain.write();
  const auto bytes = static_cast<double>(plain.bytes());
  compare(
      "writing", bytes, options.pairs, [&] { return rank.write(); }, [&] { return plain.write(); });
  const auto cold = [](const auto& files, const auto& read) {
    forget_pages(files.folder());
    return read();
  };
  compare(
      "reading from the disk", bytes, options.pairs, [&] { return cold(rank, [&] { return rank.read(); }); },
      [&] { return cold(plain, [&] { return plain.read(); }); });
  compare(
      "reading from the page cache", bytes, options.pairs, [&] { return rank.read(); },
      [&] { return plain.read(); });
  fs::remove_all(rank.folder());
  fs::remove_all(plain.folder());
}

struct FirstToken {
  double seconds = 0.0;
  std::size_t cached = 0;
  std::vector<TokenId> tokens;
};

FirstToken answer_of(Engine& engine, std::size_t length) {
  reference::Random random(length);
  Request request;
  request.prompt.resize(length);
  for (TokenId& token : request.prompt)
    token = static_cast<TokenId>(random.integer(3, engine.info().config.vocab_size - 1));
  request.max_tokens = 4;
  request.ignore_eos = true;
  request.sampling.temperature = 0.0F;
  FirstToken first;
  const Stopwatch watch;
  engine.run(request, [&](const Event& event) {
    const auto* token = std::get_if<TokenEvent>(&event);
    if (token == nullptr) return;
    if (first.tokens.empty()) first.seconds = watch.seconds();
    first.cached = token->cached_tokens;
    first.tokens.push_back(token->token);
  });
  return first;
}

void measure_prompts(Communicator& comm, const Options& options) {
  const std::size_t longest = *std::ranges::max_element(options.prompts);
  EngineOptions engine_options{.model = options.config,
                               .synthetic = true,
                               .weights = find_weight_type(options.weights),
                               .kv_type = kKvType,
                               .same_bits = true,
                               .kv_store = options.store,
                               .kv_store_min = 1,
                               .max_sequences = 1,
                               .max_length = longest + 64,
                               .threads = options.threads};
  const auto all = [&] {
    std::vector<FirstToken> answers;
    Engine engine(comm, engine_options);
    if (!comm.is_root()) {
      engine.follow();
      return answers;
    }
    for (const std::size_t length : options.prompts) answers.push_back(answer_of(engine, length));
    return answers;
  };
  const std::vector<FirstToken> computed = all();
  if (comm.is_root()) forget_pages(options.store);
  const std::vector<FirstToken> restored = all();
  if (!comm.is_root()) return;
  fmt::print("{:>8} {:>12} {:>12} {:>8}\n", "prompt", "computed, s", "restored, s", "ratio");
  for (std::size_t i = 0; i < options.prompts.size(); ++i) {
    require<ConfigError>(restored[i].tokens == computed[i].tokens, "the texts after {} tokens differ",
                         options.prompts[i]);
    require<ConfigError>(restored[i].cached + kBlockSize >= options.prompts[i],
                         "expected a restored prompt of {} tokens, found {} tokens", options.prompts[i],
                         restored[i].cached);
    fmt::print("{:>8} {:>12.2f} {:>12.2f} {:>8.0f}\n", options.prompts[i], computed[i].seconds,
               restored[i].seconds, computed[i].seconds / restored[i].seconds);
  }
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Prompts on disk: transfer rates, and the time to the first token");
  tp::Options options;
  app.add_option("--store", options.store, "A folder for the measurement, which is removed at its end")
      ->required();
  app.add_option("--config", options.config, "A config.json; weights are generated");
  app.add_option("--weights", options.weights, "Type of the weights")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8", "int4"}));
  app.add_option("--prompts", options.prompts, "Lengths of prompts, in tokens")->delimiter(',');
  tp::bench::add_pairs(app, options.pairs);
  tp::bench::add_threads(app, options.threads);
  return tp::bench::run_on_ranks("bench_kv_store", app, argc, argv, [&](tp::Communicator& comm) {
    tp::require<tp::ConfigError>(!tp::fs::exists(options.store), "expected a new folder, found {}",
                                 options.store.string());
    MPI_Barrier(MPI_COMM_WORLD);
    omp_set_num_threads(static_cast<int>(options.threads));
    if (comm.is_root()) tp::measure_files(options);
    tp::measure_prompts(comm, options);
    if (comm.is_root()) tp::fs::remove_all(options.store);
  });
}
