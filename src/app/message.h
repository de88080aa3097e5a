// What the program says to the person who called it. Results go to standard output; these go to standard error.
// Thread rule: thread-safe.
#pragma once

#include <string>

namespace shardfs::app {

/// One line as it is, in one write, so that lines of several processes do not mix. Line ends within it become blanks.
void print_line(std::string text);
/// "shardfs: ...". An error ends the command; a note does not.
void print_error(const std::string& message);
void print_note(const std::string& message);

}  // namespace shardfs::app
