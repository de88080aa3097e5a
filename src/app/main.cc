#include <exception>

#include "app/command.h"
#include "app/message.h"

int main(int argc, char** argv) {
  try {
    return shardfs::app::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    shardfs::app::print_error(error.what());
    return shardfs::app::kExitFailed;
  }
}
