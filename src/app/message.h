// What the program says to the person who called it. Results go to standard output; these go to standard error.
// Thread rule: thread-safe.
#pragma once

#include <string>

namespace shardfs::app {

/// One line: "shardfs: ...". Line ends within it become blanks. An error ends the command; a note does not.
void print_error(const std::string& message);
void print_note(const std::string& message);

}  // namespace shardfs::app
