#include "runtime/store/files/rank_store.h"

#include "parallel/machine/error_text.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/store/files/prompt_ids.h"
#include "runtime/store/files/store_limit.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

RunHeader header_of(const CachePart& part, const StoredRun& run, std::size_t first_block = 0) {
  return {part.kind,
          static_cast<std::uint32_t>(part.layers),
          static_cast<std::uint32_t>(part.head),
          run.before,
          run.id,
          run.tokens,
          static_cast<std::uint32_t>(first_block)};
}

}  // namespace

RankStore::RankStore(StoreFolder folder, std::vector<CachePart> parts, std::size_t groups,
                     std::uint64_t limit, std::vector<std::string> indexed)
    : folder_(std::move(folder)),
      parts_(std::move(parts)),
      groups_(groups),
      limit_(limit),
      indexed_(std::move(indexed)) {
  maintain();
  thread_ = std::thread([this] { work(); });
}

RankStore::~RankStore() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

StoreReport RankStore::run(StoreWork work) {
  std::vector<Save> saves(work.clears ? 1 : 0);
  for (StoreTask& task : work.saves) {
    Save& save = saves.emplace_back();
    save.states.resize(parts_.size());
    const StoredRun& run = task.runs.front();
    for (std::size_t i = 0; i < parts_.size() && run.state != kNoSlot; ++i) {
      if (parts_[i].kind == StoredKind::states) save.states[i] = file_of_state(parts_[i], run);
    }
    save.task = std::move(task);
  }
  const std::lock_guard lock(mutex_);
  std::ranges::move(saves, std::back_inserter(saves_));
  std::ranges::move(work.loads, std::back_inserter(loads_));
  cancelled_.insert(work.cancelled.begin(), work.cancelled.end());
  StoreReport report = report_;
  report.writes = writes_;
  while (!ended_.empty() && report.ended_loads < StoreReport::kMaxLoads) {
    report.loads[report.ended_loads++] = ended_.front();
    cancelled_.erase(ended_.front().id);
    ended_.pop_front();
  }
  if (!problems_.empty()) {
    const auto& [problem, text] = problems_.front();
    report.problem = problem;
    std::copy_n(text.begin(), std::min(text.size(), report.note.size() - 1), report.note.begin());
    problems_.pop_front();
  }
  wake_.notify_one();
  return report;
}

std::size_t RankStore::bytes_to_copy(const StoreWork& work) const {
  std::size_t bytes = 0;
  for (const StoreTask& save : work.saves) {
    const StoredRun& run = save.runs.front();
    for (const CachePart& part : parts_) {
      if (part.kind == StoredKind::states && run.state != kNoSlot) bytes += part.bytes(run, groups_);
    }
  }
  return bytes;
}

std::vector<std::byte> RankStore::file_of_state(const CachePart& part, const StoredRun& run) const {
  const std::size_t offset = run_offset(run.tokens.size());
  std::vector<std::byte> file(offset + part.bytes(run, groups_));
  copy_from_cache(part, run, groups_, 0, std::span(file).subspan(offset));
  return file;
}

std::vector<RunHeader> RankStore::take_found() {
  const std::lock_guard lock(mutex_);
  return std::exchange(found_, {});
}

// Limits the size of the folder, and looks for new files.
void RankStore::maintain() {
  maintained_ = std::chrono::steady_clock::now();
  const std::uint64_t removed =
      limit_ != 0 ? shrink_store(folder_.path().parent_path(), limit_) : std::uint64_t{0};
  std::vector<RunHeader> found;
  std::unordered_set<std::string> present;
  for (const std::string& part : indexed_) {
    for (const std::filesystem::path& file : folder_.files_of(part)) {
      present.insert(file.filename().string());
      if (seen_.contains(file.filename().string())) continue;
      ParsedRun run = StoreFolder::read_header(file);
      if (run.error.empty())
        found.push_back(std::move(run.header));
      else
        ignore(file, run.error);
    }
  }
  seen_ = std::move(present);
  const std::lock_guard lock(mutex_);
  report_.removed_bytes += removed;
  std::ranges::move(found, std::back_inserter(found_));
}

void RankStore::work() {
  constexpr auto kMaintainEvery = std::chrono::seconds(10);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_until(lock, maintained_ + kMaintainEvery,
                     [&] { return stops_ || !loads_.empty() || !saves_.empty(); });
    if (stops_) return;
    if (std::chrono::steady_clock::now() >= maintained_ + kMaintainEvery) {
      lock.unlock();
      guard([&] { maintain(); });
      lock.lock();
    }
    if (!loads_.empty()) {
      const StoreTask task = std::move(loads_.front());
      loads_.pop_front();
      lock.unlock();
      load(task);
      lock.lock();
    } else if (!saves_.empty()) {
      Save next = std::move(saves_.front());
      saves_.pop_front();
      const bool writes = writes_;
      const bool clears = next.task.runs.empty();
      lock.unlock();
      if (clears)
        guard([&] { clear(); });
      else if (writes)
        guard([&] { save(next); });
      lock.lock();
      if (!clears) ++report_.saves;
    }
  }
}

void RankStore::save(const Save& save) {
  const StoredRun& run = save.task.runs.front();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const CachePart& part = parts_[i];
    if (!part.writes) continue;
    if (part.kind == StoredKind::states && !save.states[i].empty()) {
      if (is_stored(part, run, 0)) continue;
      std::vector<std::byte> file = save.states[i];
      complete_run(header_of(part, run), file);
      write(part, run, file);
    } else if (part.kind == StoredKind::keys_and_values && !run.blocks.empty()) {
      save_blocks(part, run);
    }
  }
}

void RankStore::save_blocks(const CachePart& part, const StoredRun& run) {
  const std::size_t first = complete_from(part, run, groups_);
  if (first == run.blocks.size() / groups_ || is_stored(part, run, first)) return;
  const std::size_t offset = run_offset(run.tokens.size());
  buffer_.resize(offset + part.bytes(run, groups_, first));
  copy_from_cache(part, run, groups_, first, std::span(buffer_).subspan(offset));
  complete_run(header_of(part, run, first), buffer_);
  write(part, run, buffer_);
  remove_shorter(part, run);
}

// One rank per host removes the files of all parts, which may be of other ranks. The others remove those that
// they have written since.
void RankStore::clear() {
  std::uint64_t removed = 0;
  if (limit_ != 0)
    removed = prune_stores(folder_.path().parent_path(), {.name = folder_.path().filename().string()});
  for (const CachePart& part : parts_) {
    if (!part.writes) continue;
    for (const std::filesystem::path& file : folder_.files_of(part.name())) StoreFolder::remove(file);
  }
  seen_.clear();
  const std::lock_guard lock(mutex_);
  report_.removed_bytes += removed;
}

bool RankStore::is_stored(const CachePart& part, const StoredRun& run, std::size_t first) const {
  const ParsedRun stored = StoreFolder::read_header(folder_.path_of(run.id, part.name()));
  const std::size_t stored_first = stored.header.first_block;
  return stored.error.empty() && stored_first <= first && stored.header == header_of(part, run, stored_first);
}

// Removes a file that cannot be used, if there is one.
void RankStore::ignore(const std::filesystem::path& file, const std::string& why) {
  if (!StoreFolder::exists(file)) return;
  StoreFolder::remove(file);
  const std::lock_guard lock(mutex_);
  if (report_.damaged_files++ == 0)
    problems_.emplace_back(
        StoreProblem::damaged_file,
        fmt::format("the stored prompt {} is ignored and removed: {}", file.string(), why));
}

// Removes the files that the run replaces: runs with the same beginning.
void RankStore::remove_shorter(const CachePart& part, const StoredRun& run) const {
  const std::size_t size = run.tokens.size() * groups_ / run.blocks.size();
  for (const PromptId& shorter :
       ids_after(run.before, std::span(run.tokens).first(run.tokens.size() - size), size))
    StoreFolder::remove(folder_.path_of(shorter, part.name()));
}

// Stops writing if the task throws: an error in the folder must not end the job.
void RankStore::guard(const std::function<void()>& task) {
  try {
    task();
  } catch (const std::exception& error) {
    stop_writing(error_text(error));
  }
}

void RankStore::stop_writing(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(writes_, false)) return;
  problems_.emplace_back(StoreProblem::cannot_write, fmt::format("prompts are no longer stored in {}: {}",
                                                                 folder_.path().parent_path().string(), why));
}

void RankStore::write(const CachePart& part, const StoredRun& run, std::span<const std::byte> file) {
  const Stopwatch watch;
  const std::string error = folder_.write(folder_.path_of(run.id, part.name()), file);
  if (!error.empty()) stop_writing(error);
  const std::lock_guard lock(mutex_);
  report_.write_seconds += watch.seconds();
  if (error.empty()) report_.written_bytes += file.size();
}

bool RankStore::is_cancelled(std::uint64_t load) {
  const std::lock_guard lock(mutex_);
  return stops_ || cancelled_.contains(load);
}

// Reads the runs until one fails. Then checks the other files without waiting for the blocks, which may
// already belong to others: the prompt is stored again only where files are missing.
void RankStore::load(const StoreTask& task) {
  bool has_failed = false;
  for (std::size_t i = 0; i < task.runs.size(); ++i) {
    for (const CachePart& part : parts_) {
      if (!wants(part, task.runs[i])) continue;
      bool is_read = false;
      if (!is_cancelled(task.id)) guard([&] { is_read = read(part, task.runs[i], !has_failed); });
      if (is_read || has_failed) continue;
      const bool is_cancelled_now = is_cancelled(task.id);
      end_load(task, i);
      has_failed = true;
      if (is_cancelled_now) return;
    }
  }
  if (!has_failed) end_load(task, task.runs.size());
}

void RankStore::end_load(const StoreTask& task, std::size_t failed) {
  const std::lock_guard lock(mutex_);
  ended_.push_back({task.id, failed});
}

bool RankStore::wants(const CachePart& part, const StoredRun& run) const {
  if (part.kind == StoredKind::states) return run.state != kNoSlot;
  return wanted_from(part, run, groups_) < run.blocks.size() / groups_;
}

// Reads a file, and copies its values to the cache. Returns whether it could be used; if not, removes it.
bool RankStore::read(const CachePart& part, const StoredRun& run, bool copies) {
  const Stopwatch watch;
  const std::filesystem::path file = folder_.path_of(run.id, part.name());
  ParsedRun parsed = StoreFolder::read_header(file);
  const std::size_t first = parsed.header.first_block;
  std::string error = parsed.error;
  if (error.empty() && parsed.header != header_of(part, run, first)) error = "it belongs to another prompt";
  if (error.empty()) {
    // The file was written when earlier blocks had left their window.
    if (first > wanted_from(part, run, groups_) && part.kind == StoredKind::keys_and_values) return false;
    buffer_.resize(run_offset(run.tokens.size()) + part.bytes(run, groups_, first));
    error = StoreFolder::read(file, buffer_);
  }
  if (error.empty()) {
    parsed = parse_run(buffer_);
    error = parsed.error;
  }
  if (error.empty() && parsed.header != header_of(part, run, first)) error = "it belongs to another prompt";
  if (error.empty()) {
    if (copies) copy_to_cache(part, run, groups_, first, parsed.values);
    const std::lock_guard lock(mutex_);
    report_.read_bytes += buffer_.size();
    report_.read_seconds += watch.seconds();
    return true;
  }
  ignore(file, error);
  return false;
}

}  // namespace tp
