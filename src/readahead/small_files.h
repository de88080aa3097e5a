// SmallFiles: from the opens of small files in one directory to those of its files that are fetched before they are
// asked for, by their index in the listing. SiblingOpens: when such opens go over several directories of one parent.
// SmallFileYield: whether what was fetched came to be opened, for all directories of one parent together.
// Not a queue: it says which file is next, whoever asks says when. Pure: no clock, no I/O, no thread, no names, no
// sizes beyond what it is told.
// Thread rule: thread-compatible; fs keeps them under its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardfs::readahead {

/// Larger files are shards. Source: at 90 MB/s a connection 4 MiB last as long as a round trip of 47 ms.
inline constexpr uint64_t kSmallFileBytes = 4 << 20;

struct SmallFileLimits {
  size_t steps = 4;       // files opened in listed order that make a run
  size_t run_reach = 16;  // a step of a run leads so far at most, forward and back: readers that interleave
  size_t runs = 32;       // followed at once in one directory; the one used last is given up
  // Files ahead of a run, at most; n * n when it has opened n. Source: 100 ms at 1,500 files a second are 150; opens at
  // random make short runs by chance, and these fetch sixteen.
  size_t run_ahead = 512;
  size_t opens = 8;  // distinct files opened, in any order: the directory is wanted whole
  // Fetched and not opened, at most; a shuffled job opens what is fetched late, and a few opens must not pull much.
  size_t unopened_files = 256, unopened_files_per_open = 64;
  uint64_t unopened_bytes = 64 << 20, unopened_bytes_per_byte_opened = 16;
  // SiblingOpens
  size_t sibling_opens = 8, siblings = 3;
};

class SmallFiles {
 public:
  explicit SmallFiles(size_t files, SmallFileLimits limits = {});

  enum class Open : uint8_t {
    kForeseen,  // fetched for this open
    kMissed,    // nobody had it
    kNeutral,   // opened before, or resident by other means
  };
  /// resident: its bytes are in the cache or memory already. Requires: index < files.
  Open on_open(size_t index, bool resident);
  /// The next file to fetch, each once: ahead of its runs first, then, if the directory is wanted whole and may_pull,
  /// all others in order. What is not worth fetching (a directory, a shard) is passed over by not saying `fetching`.
  std::optional<size_t> next(bool may_pull);
  /// The file that next() gave is on its way.
  void fetching(size_t index);
  /// It will not come: it failed, or was given up before it was opened.
  void lost(size_t index);
  /// Want it whole, as a sibling of directories that are.
  void want_whole() { whole_ = true; }
  bool wanted_whole() const { return whole_; }
  /// All files have been given out by next() or opened.
  bool exhausted() const { return cursor_ >= settled_.size(); }
  size_t unopened() const { return unopened_count_; }
  /// How likely the next open finds its file fetched, if files are opened at random, each once: 0 to 1.
  double coverage() const;
  size_t files() const { return settled_.size(); }

 private:
  struct Run {
    size_t begin = 0;   // its first file
    size_t next = 0;    // one after the last file opened
    size_t opens = 0;   // files opened in [begin, next)
    size_t wanted = 0;  // given out up to here
    uint64_t used = 0;  // tick of its last open
  };
  void follow(size_t index);
  bool in_order(const Run& run) const;
  void note_again(size_t index);

  const SmallFileLimits limits_;
  std::vector<bool> settled_;   // given out, or opened
  std::vector<bool> unopened_;  // fetched, and not opened since
  std::vector<bool> opened_;
  std::vector<Run> runs_;
  size_t turn_ = 0;  // the run that is asked first
  uint64_t tick_ = 0;
  size_t opened_count_ = 0;
  size_t unopened_count_ = 0;
  size_t missed_ = 0;
  size_t again_ = 0;  // opens of files that were opened before and are not resident any more
  bool whole_ = false;
  size_t cursor_ = 0;  // of the whole directory
};

class SiblingOpens {
 public:
  explicit SiblingOpens(SmallFileLimits limits = {}) : limits_(limits) {}
  /// A file of that sibling was opened and nobody had it.
  void on_missed(size_t sibling);
  /// All siblings are wanted.
  bool wanted() const { return opens_ >= limits_.sibling_opens && seen_.size() >= limits_.siblings; }

 private:
  const SmallFileLimits limits_;
  std::vector<size_t> seen_;  // distinct, as many as matter
  size_t opens_ = 0;
};

class SmallFileYield {
 public:
  explicit SmallFileYield(SmallFileLimits limits = {}) : limits_(limits) {}
  /// coverage: of its directory, before this open.
  void on_open(SmallFiles::Open open, uint64_t bytes, double coverage);
  void on_fetch(uint64_t bytes);
  /// Given up before it was opened.
  void on_lost(uint64_t bytes);
  /// One more may be fetched: not too many lie unopened, and opens find what was fetched as often as chance would.
  bool worthwhile() const;

 private:
  const SmallFileLimits limits_;
  uint64_t opens_ = 0, opened_bytes_ = 0;
  uint64_t unopened_files_ = 0, unopened_bytes_ = 0;
  double expected_ = 0;  // opens that should have found their file, if it were chance
  double found_ = 0;
};

}  // namespace shardfs::readahead
