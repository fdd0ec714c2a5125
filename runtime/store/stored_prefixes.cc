#include "runtime/store/stored_prefixes.h"

#include <algorithm>
#include <utility>

namespace tp {

std::size_t StoredPrefixes::loading() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      prefixes_, [](const auto& entry) { return entry.second.state == Prefix::State::loading; }));
}

bool StoredPrefixes::must_wait(const Text& text, std::size_t room, double compute_rate) {
  if (text.prompt_tokens < settings_.min_tokens) return false;
  const std::size_t size = blocks_.block_size();
  const auto known = prefixes_.find(text.id);
  if (known == prefixes_.end()) {
    // The last token is always computed.
    const std::span<const TokenId> tokens = text.tokens.first((text.tokens.size() - 1) / size * size);
    prefixes_[text.id] = {.state = Prefix::State::waiting,
                          .ids = ids_after(id_of_salt(settings_.fingerprint, text.salt), tokens, size)};
  } else if (known->second.state != Prefix::State::waiting) {
    return known->second.state == Prefix::State::loading;
  }
  const std::vector<PromptId>& ids = prefixes_[text.id].ids;
  const std::size_t cached = blocks_.match_prefix(text.tokens, text.salt).tokens / size;
  const std::optional<StoredPrefix> found =
      find_prefix(index_, ids, cached, settings_.widest_window, size, blocks_.keeps_states());
  if (!found || is_slower_than(compute_rate)) {
    prefixes_[text.id] = {};
    return false;
  }
  if (loads_.size() == StoreReport::kMaxLoads || is_being_read(ids)) return true;
  return start(text, *found, ids, cached, room);
}

bool StoredPrefixes::is_slower_than(double compute_rate) const {
  constexpr auto kForget = std::chrono::seconds(60);
  if (read_seconds_ == 0.0 || Clock::now() - measured_ > kForget) return false;
  return read_tokens_ / read_seconds_ < compute_rate;
}

void StoredPrefixes::measure(const Prefix& prefix) {
  constexpr double kOlder = 0.5;  // weight of earlier measurements
  read_tokens_ = kOlder * read_tokens_ + static_cast<double>(prefix.tokens);
  read_seconds_ = kOlder * read_seconds_ + prefix.seconds;
  measured_ = Clock::now();
}

// Whether a beginning of the prompt whose blocks have these ids is being read for another sequence.
bool StoredPrefixes::is_being_read(const std::vector<PromptId>& ids) const {
  return std::ranges::any_of(loads_, [&](const auto& entry) {
    const Load& load = entry.second;
    return load.sequence && load.blocks <= ids.size() && ids[load.blocks - 1] == load.end;
  });
}

bool StoredPrefixes::start(const Text& text, const StoredPrefix& found, const std::vector<PromptId>& ids,
                           std::size_t cached, std::size_t room) {
  const std::optional<LoanId> loan = blocks_.lend_blank(text.tokens, text.salt, found.blocks, room);
  if (!loan) return false;
  Load load{
      .sequence = text.id, .loan = *loan, .blocks = found.blocks, .end = ids[found.blocks - 1], .runs = {}};
  load.runs = runs_to_read(blocks_.loan(*loan), found, ids, id_of_salt(settings_.fingerprint, text.salt),
                           text.tokens);
  const std::uint64_t id = next_task_++;
  // Ends the life of `ids`.
  prefixes_[text.id] = {.state = Prefix::State::loading,
                        .ids = {},
                        .load = id,
                        .loan = *loan,
                        .tokens = (found.blocks - cached) * blocks_.block_size(),
                        .begun = Clock::now()};
  work_.loads.push_back({id, load.runs});
  loads_.emplace(id, std::move(load));
  return true;
}

// The files to read for the loan's blank blocks and its state.
std::vector<StoredRun> StoredPrefixes::runs_to_read(const BlockLoan& loan, const StoredPrefix& found,
                                                    const std::vector<PromptId>& ids, const PromptId& salt,
                                                    std::span<const TokenId> tokens) const {
  const std::size_t size = blocks_.block_size();
  std::vector<StoredRun> runs;
  for (const StoredPrefix::Run& run : found.runs) {
    StoredRun read{.before = run.run->before, .id = run.run->id, .tokens = run.run->tokens};
    const std::size_t in_file = read.tokens.size() / size;
    for (std::size_t group = 0; group < blocks_.groups(); ++group) {
      for (std::size_t i = 0; i < in_file; ++i)
        read.blocks.push_back(i < run.blocks ? loan.blank[group][run.first + i] : kNoBlock);
    }
    const bool reads = std::ranges::any_of(read.blocks, [](BlockId block) { return block != kNoBlock; });
    if (reads) runs.push_back(std::move(read));
  }
  if (loan.state != kNoSlot) {
    const std::size_t last = found.blocks - 1;
    const auto own = tokens.subspan(last * size, size);
    runs.push_back({.before = last == 0 ? salt : ids[last - 1],
                    .id = ids[last],
                    .tokens = {own.begin(), own.end()},
                    .blocks = {},
                    .state = loan.state,
                    .position = found.blocks * size});
  }
  return runs;
}

StoredPrefixes::Restored StoredPrefixes::leave(SequenceId id) {
  const auto left = prefixes_.extract(id);
  if (left.empty()) return {};
  Prefix& prefix = left.mapped();
  if (prefix.state == Prefix::State::loading) cancel(prefix);
  if (prefix.state != Prefix::State::ready) return {};
  blocks_.end_loan(prefix.loan);
  return {prefix.tokens, prefix.seconds};
}

// The ranks may still be filling the blocks, so the loan ends when they have reported.
void StoredPrefixes::cancel(Prefix& prefix) {
  work_.cancelled.push_back(prefix.load);
  loads_.at(prefix.load).sequence.reset();
  prefix.state = Prefix::State::none;
}

std::optional<bool> StoredPrefixes::give_up_newest() {
  for (auto newest = prefixes_.rbegin(); newest != prefixes_.rend(); ++newest) {
    Prefix& prefix = newest->second;
    if (prefix.state == Prefix::State::none || prefix.state == Prefix::State::waiting) continue;
    const bool is_ready = prefix.state == Prefix::State::ready;
    if (is_ready)
      blocks_.end_loan(prefix.loan);
    else
      cancel(prefix);
    prefix.state = Prefix::State::none;
    return is_ready;
  }
  const bool is_ending = std::ranges::any_of(loads_, [](const auto& load) { return !load.second.sequence; });
  return is_ending ? std::optional(false) : std::nullopt;
}

void StoredPrefixes::add(const Text& text, std::size_t computed) {
  if (!status_.writes || text.prompt_tokens < settings_.min_tokens) return;
  const std::size_t size = blocks_.block_size();
  Track& track = tracks_[text.id];
  if (track.ids.empty()) track.salt = id_of_salt(settings_.fingerprint, text.salt);
  const std::size_t before = track.ids.size();
  const std::size_t blocks = computed / size;
  if (blocks == before) return;
  const std::vector<PromptId> more =
      ids_after(before == 0 ? track.salt : track.ids.back(),
                text.tokens.subspan(before * size, (blocks - before) * size), size);
  track.ids.insert(track.ids.end(), more.begin(), more.end());
  if (blocks_.keeps_states()) {
    const std::vector<ContentId> contents = blocks_.contents_of(text.id, {before, blocks});
    for (std::size_t i = 0; i < contents.size(); ++i) {
      if (!blocks_.is_replaceable(contents[i])) queue_state(text, track, before + i + 1, contents[i]);
    }
  }
  for (; track.queued + settings_.blocks_per_run <= blocks; track.queued += settings_.blocks_per_run)
    queue_run(text, track, {track.queued, track.queued + settings_.blocks_per_run});
}

void StoredPrefixes::end(const Text& text) {
  const auto ended = tracks_.extract(text.id);
  if (ended.empty() || ended.mapped().ids.empty()) return;
  const Track& track = ended.mapped();
  const std::size_t blocks = track.ids.size();
  if (track.queued < blocks) queue_run(text, track, {track.queued, blocks});
  if (blocks_.keeps_states())
    queue_state(text, track, blocks, blocks_.contents_of(text.id, {blocks - 1, blocks}).front());
}

RunHeader StoredPrefixes::header_of(const Text& text, const Track& track, Range blocks,
                                    StoredKind kind) const {
  const std::size_t size = blocks_.block_size();
  const auto tokens = text.tokens.subspan(blocks.begin * size, blocks.size() * size);
  RunHeader header;
  header.kind = kind;
  header.before = blocks.begin == 0 ? track.salt : track.ids[blocks.begin - 1];
  header.id = track.ids[blocks.end - 1];
  header.tokens.assign(tokens.begin(), tokens.end());
  return header;
}

void StoredPrefixes::queue_run(const Text& text, const Track& track, Range blocks) {
  if (!known_runs_.insert(track.ids[blocks.end - 1]).second) return;
  Save& save = queue_.emplace_back();
  save.header = header_of(text, track, blocks, StoredKind::keys_and_values);
  save.position = blocks.end * blocks_.block_size();
  save.contents = blocks_.contents_of(text.id, blocks);
}

// Queues the state after the first `end` blocks, if there is a snapshot.
void StoredPrefixes::queue_state(const Text& text, const Track& track, std::size_t end, ContentId contents) {
  if (blocks_.snapshot_after(contents) == kNoSlot || !known_states_.insert(track.ids[end - 1]).second) return;
  Save& save = queue_.emplace_back();
  save.header = header_of(text, track, {end - 1, end}, StoredKind::states);
  save.position = end * blocks_.block_size();
  save.contents = {contents};
}

// Whether the cache still has the blocks of a run that ends at this position: all of the layers with the
// widest window, and those of the other layers that the next token sees.
bool StoredPrefixes::has_needed_blocks(const BlockLoan& lent, std::size_t position) const {
  const std::size_t begin = position / blocks_.block_size() - lent.contents.size();
  for (std::size_t group = 0; group < blocks_.groups(); ++group) {
    const std::vector<BlockId>& held = lent.held[group];
    const std::size_t seen = std::max(begin, blocks_.first_block(group, position)) - begin;
    const std::size_t first = settings_.has_widest_window[group] ? 0 : std::min(seen, held.size());
    if (std::find(held.begin() + static_cast<std::ptrdiff_t>(first), held.end(), kNoBlock) != held.end())
      return false;
  }
  return true;
}

// Takes the next save from the queue whose blocks are still in the cache.
std::optional<StoreTask> StoredPrefixes::next_save() {
  while (!queue_.empty()) {
    const Save save = std::move(queue_.front());
    queue_.pop_front();
    StoredRun run{.before = save.header.before, .id = save.header.id, .tokens = save.header.tokens};
    std::optional<LoanId> loan;
    bool is_kept = true;
    if (save.header.kind == StoredKind::states) {
      run.state = blocks_.snapshot_after(save.contents.back());
      run.position = save.position;
      is_kept = run.state != kNoSlot;
    } else {
      loan = blocks_.lend(save.contents);
      const BlockLoan& lent = blocks_.loan(*loan);
      for (const std::vector<BlockId>& held : lent.held)
        run.blocks.insert(run.blocks.end(), held.begin(), held.end());
      is_kept = has_needed_blocks(lent, save.position);
    }
    if (is_kept) {
      saving_.push_back({save.header, loan});
      return StoreTask{next_task_++, {std::move(run)}};
    }
    if (loan) blocks_.end_loan(*loan);
    (save.header.kind == StoredKind::states ? known_states_ : known_runs_).erase(save.header.id);
    ++status_.dropped_runs;
  }
  return std::nullopt;
}

// Running sequences are stored again from their beginning.
void StoredPrefixes::clear() {
  index_ = RunIndex(blocks_.block_size());
  known_runs_.clear();
  known_states_.clear();
  tracks_.clear();
  queue_.clear();
  for (Saving& saving : saving_) saving.is_removed = true;
  work_.clears = true;
}

std::optional<StoreWork> StoredPrefixes::take_work() {
  constexpr std::size_t kMaxSaves = 2;
  constexpr auto kPatience = std::chrono::milliseconds(1);
  if (clears_.exchange(false)) clear();
  StoreWork work = std::exchange(work_, {});
  bool has_state = false;  // the main thread copies at most one per step
  while (saving_.size() < kMaxSaves && !has_state) {
    std::optional<StoreTask> save = next_save();
    if (!save) break;
    has_state = save->runs.front().state != kNoSlot;
    work.saves.push_back(std::move(*save));
  }
  const bool is_new = !work.saves.empty() || !work.loads.empty() || !work.cancelled.empty() || work.clears;
  const auto now = Clock::now();
  if (!is_new && (!is_busy() || now - asked_ < kPatience)) return std::nullopt;
  asked_ = now;
  return work;
}

std::vector<std::string> StoredPrefixes::apply_reports(std::span<const StoreReport> reports) {
  std::vector<std::string> notes;
  std::uint64_t finished = UINT64_MAX;
  status_.read_bytes = status_.written_bytes = status_.removed_bytes = status_.damaged_files = 0;
  status_.read_seconds = status_.write_seconds = 0.0;
  for (const StoreReport& report : reports) {
    finished = std::min(finished, report.saves);
    status_.writes = status_.writes && report.writes;
    status_.read_bytes += report.read_bytes;
    status_.read_seconds += report.read_seconds;
    status_.written_bytes += report.written_bytes;
    status_.write_seconds += report.write_seconds;
    status_.damaged_files += report.damaged_files;
    status_.removed_bytes += report.removed_bytes;
    // Ranks notice a full disk in different steps. The user needs one note.
    if (report.problem != StoreProblem::none && noted_.insert(report.problem).second)
      notes.emplace_back(report.note.data());
    for (std::size_t i = 0; i < report.ended_loads; ++i) {
      Load& load = loads_.at(report.loads[i].id);
      ++load.reports;
      load.failed = std::min<std::size_t>(load.failed, report.loads[i].failed_run);
    }
  }
  end_saves(finished);
  std::vector<std::uint64_t> ended;
  for (const auto& [id, load] : loads_) {
    if (load.reports == settings_.ranks) ended.push_back(id);
  }
  std::ranges::for_each(ended, [&](std::uint64_t id) { end_load(id); });
  return notes;
}

void StoredPrefixes::end_saves(std::uint64_t finished) {
  for (; saves_finished_ < finished; ++saves_finished_) {
    const Saving saved = std::move(saving_.front());
    saving_.pop_front();
    if (saved.loan) blocks_.end_loan(*saved.loan);
    if (status_.writes && !saved.is_removed) index_.add(saved.header);
  }
  if (!status_.writes) queue_.clear();
}

void StoredPrefixes::end_load(std::uint64_t id) {
  const auto ended = loads_.extract(id);
  const Load& load = ended.mapped();
  if (!load.sequence) return blocks_.end_loan(load.loan);
  Prefix& prefix = prefixes_.at(*load.sequence);
  if (load.failed >= load.runs.size()) {
    blocks_.publish_loan(load.loan);
    prefix.state = Prefix::State::ready;
    prefix.seconds = std::chrono::duration<double>(Clock::now() - prefix.begun).count();
    measure(prefix);
    for (const StoredRun& run : load.runs) {
      const bool is_run = run.state == kNoSlot;
      if (is_run ? index_.has_run(run.id) : index_.has_state(run.id))
        (is_run ? known_runs_ : known_states_).insert(run.id);
    }
    ++status_.restored_prompts;
    status_.restored_tokens += prefix.tokens;
    return;
  }
  // Forgets the file and all files after it, and looks for a prefix without them. If files are missing, they
  // are stored again.
  for (std::size_t i = load.failed; i < load.runs.size(); ++i) {
    const StoredRun& run = load.runs[i];
    if (run.state != kNoSlot) {
      index_.remove_state(run.id);
      known_states_.erase(run.id);
    } else {
      index_.remove_run(run.id);
      known_runs_.erase(run.id);
    }
  }
  blocks_.end_loan(load.loan);
  prefixes_.erase(*load.sequence);
}

StoreStatus StoredPrefixes::status() const {
  StoreStatus status = status_;
  status.waiting_runs = queue_.size() + saving_.size();
  status.loading = loading();
  return status;
}

}  // namespace tp
