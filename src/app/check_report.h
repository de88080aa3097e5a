// CheckReport: what `shardfs check` found, as lines for a person and as JSON for scripts.
// Thread rule: plain values and pure functions.
#pragma once

#include <string>
#include <vector>

namespace shardfs::app {

struct CheckRow {
  enum class Verdict { kOk, kWarning, kFailed, kSkipped } verdict = Verdict::kOk;
  std::string name;    // "endpoint"
  std::string found;   // what is the case
  std::string advice;  // what to do; empty: nothing
};

std::string_view name_of(CheckRow::Verdict verdict);

/// One or two lines, with a line end.
std::string row_text(const CheckRow& row);
/// {"source": TEXT, "ok": BOOL, "checks": [{"name", "verdict", "found", "advice"}]}.
std::string report_json(const std::string& source, const std::vector<CheckRow>& rows);
/// Nothing failed.
bool all_work(const std::vector<CheckRow>& rows);

}  // namespace shardfs::app
