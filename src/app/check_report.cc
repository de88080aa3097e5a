#include "app/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shardfs::app {

std::string_view name_of(CheckRow::Verdict verdict) {
  switch (verdict) {
    case CheckRow::Verdict::kOk: return "ok";
    case CheckRow::Verdict::kWarning: return "warning";
    case CheckRow::Verdict::kFailed: return "failed";
    case CheckRow::Verdict::kSkipped: return "skipped";
  }
  return "";
}

std::string row_text(const CheckRow& row) {
  std::string out = fmt::format("{:<12}  {:<7}  {}\n", row.name, name_of(row.verdict), row.found);
  if (!row.advice.empty()) out += fmt::format("{:<23}-> {}\n", "", row.advice);
  return out;
}

std::string report_json(const std::string& source, const std::vector<CheckRow>& rows) {
  auto checks = nlohmann::json::array();
  for (const auto& row : rows) {
    checks.push_back(
        {{"name", row.name}, {"verdict", name_of(row.verdict)}, {"found", row.found}, {"advice", row.advice}});
  }
  const nlohmann::json report = {{"source", source}, {"ok", all_work(rows)}, {"checks", std::move(checks)}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool all_work(const std::vector<CheckRow>& rows) {
  return std::none_of(rows.begin(), rows.end(),
                      [](const CheckRow& row) { return row.verdict == CheckRow::Verdict::kFailed; });
}

}  // namespace shardfs::app
