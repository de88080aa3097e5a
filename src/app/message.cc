#include "app/message.h"

#include <unistd.h>

#include <algorithm>

namespace shardfs::app {

void print_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void print_error(const std::string& message) { print_line("shardfs: " + message); }

void print_note(const std::string& message) { print_line("shardfs: note: " + message); }

}  // namespace shardfs::app
