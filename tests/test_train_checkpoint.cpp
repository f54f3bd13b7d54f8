// Checkpoints: the same bits come back, and whatever is not whole is refused with one line while
// the newest good one is used.
#include "distributed/train/checkpoint.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "ops/philox.hpp"
#include "suites/sha256.hpp"
#include "suites/tensor_file.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound::train {
namespace {

namespace fs = std::filesystem;

/// A state of every kind of tensor; its bits depend on the step.
Checkpoint state_at(std::int64_t step, std::int64_t width = 8) {
  Checkpoint c;
  c.step = step;
  const auto add = [&](const std::string& name, Element e, const Shape& shape) {
    Tensor t(e, shape);
    std::span<std::byte> bytes = t.bytes();
    for (std::size_t i = 0; i < bytes.size(); ++i)  // NaNs with payloads and -0 among them
      bytes[i] = static_cast<std::byte>(philox_word(static_cast<std::uint64_t>(step), 0, i));
    c.tensors.emplace(name, std::move(t));
  };
  add("wte.weight", Element::fp32, {width, 4});
  add("m.wte.weight", Element::fp32, {width, 4});
  add("h.0.ln_1.bias", Element::bf16, {3});
  add("exact", Element::fp64, {2, 2, 2});
  add("none", Element::fp32, {0, 5});
  c.metadata = {{"seed", std::uint64_t{1} << 63},
                {"loss_scale", 65536.0},
                {"third", 1.0 / 3},
                {"text", "a \"quoted\" line\nand \x01, \xc3\xa9"},
                {"none", std::string(64, '0')}};
  return c;
}

bool same(const Checkpoint& a, const Checkpoint& b) {
  if (a.step != b.step || a.metadata != b.metadata || a.tensors.size() != b.tensors.size())
    return false;
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && x.second.element() == y.second.element() &&
                             x.second.shape() == y.second.shape() &&
                             std::ranges::equal(x.second.bytes(), y.second.bytes());
                    });
}

class TrainCheckpoint : public TemporaryFolder {
 protected:
  std::string name(std::int64_t step) const {
    std::string digits = std::to_string(step);
    return "run/step-" + std::string(12 - digits.size(), '0') + digits + ".safetensors";
  }
  std::string folder() const { return path("run"); }

  static std::string refusal(const std::function<void()>& action) {
    try {
      action();
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  /// Step 1 is good; step 2 has this content. It must be refused by one line that names it, and 1
  /// must be used.
  std::string refusal_of(const std::string& content) const {
    put(name(2), content);
    std::vector<std::string> refused;
    const auto found = CheckpointFolder(folder()).newest(refused);
    EXPECT_TRUE(found && same(*found, state_at(1)));
    EXPECT_EQ(refused.size(), 1U);
    const std::string line = refused.empty() ? "" : refused.front();
    EXPECT_TRUE(line.starts_with(path(name(2)) + ": ")) << line;
    EXPECT_NE(line.find(", expected "), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    return line.substr(std::min(line.size(), path(name(2)).size() + 2));
  }

  void put_two() const {
    CheckpointFolder checkpoints(folder());
    checkpoints.write(state_at(1));
    checkpoints.write(state_at(2));
  }
};

TEST_F(TrainCheckpoint, ComesBackBitForBit) {
  const fs::path file = CheckpointFolder(folder()).write(state_at(120));
  EXPECT_EQ(file, path("run/step-000000000120.safetensors"));
  EXPECT_TRUE(same(read_checkpoint(file), state_at(120)));
  EXPECT_FALSE(same(read_checkpoint(file), state_at(121)));
  // Any reader of safetensors reads it.
  EXPECT_EQ(tensor_names(file).size(), 5U);
  const Tensor weight = read_tensor(file, {.name = "wte.weight", .element = {}});
  EXPECT_EQ(weight.shape(), (Shape{8, 4}));
}

TEST_F(TrainCheckpoint, TheSameStateHasTheSameBytes) {
  const fs::path a = CheckpointFolder(path("a")).write(state_at(3));
  const fs::path b = CheckpointFolder(path("b")).write(state_at(3));
  EXPECT_EQ(get("a/" + a.filename().string()), get("b/" + b.filename().string()));
}

TEST_F(TrainCheckpoint, NothingThereIsNoError) {
  std::vector<std::string> refused;
  EXPECT_FALSE(CheckpointFolder(folder()).newest(refused));
  fs::create_directories(folder());
  put("run/notes.txt", "x");
  put("run/step-1.safetensors.partial", "x");
  put("run/step-x.safetensors", "x");
  EXPECT_FALSE(CheckpointFolder(folder()).newest(refused));
  EXPECT_TRUE(refused.empty());
}

TEST_F(TrainCheckpoint, TheNewestStay) {
  CheckpointFolder checkpoints(folder(), 3);
  for (std::int64_t step = 0; step < 10; ++step) checkpoints.write(state_at(step));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder()))
    left.push_back("run/" + entry.path().filename().string());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"run/lock", name(7), name(8), name(9)}));
  // What is newer than the step written is another run's or torn: it counts for nothing and stays.
  checkpoints.write(state_at(2));
  EXPECT_TRUE(fs::exists(path(name(2))) && fs::exists(path(name(7))));
}

TEST_F(TrainCheckpoint, AStepIsWrittenAgain) {
  CheckpointFolder checkpoints(folder());
  Checkpoint other = state_at(4);
  other.metadata["again"] = true;
  checkpoints.write(state_at(4));
  checkpoints.write(other);
  std::vector<std::string> refused;
  EXPECT_TRUE(same(*checkpoints.newest(refused), other));
}

// ---- what is not whole

TEST_F(TrainCheckpoint, TruncatedAnywhere) {
  put_two();
  const std::string whole = get(name(2));
  for (std::size_t size = 0; size < whole.size(); ++size) refusal_of(whole.substr(0, size));
  refusal_of(whole + '\0');
  refusal_of(whole + whole);
}

TEST_F(TrainCheckpoint, OneBitFlippedAnywhere) {
  put_two();
  const std::string whole = get(name(2));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    refusal_of(changed);
  }
  for (std::size_t at = 0; at + 512 < whole.size(); at += 512)  // a page that was never written
    refusal_of(std::string(whole).replace(at, 512, 512, '\0'));
}

TEST_F(TrainCheckpoint, ForeignFiles) {
  put_two();
  EXPECT_EQ(refusal_of(""), "ends at byte 0, expected eight bytes of header length");
  refusal_of("a letter to a friend, with more than eight bytes");
  refusal_of(std::string(4096, '\0'));
  write_safetensors(path("weights.safetensors"), state_at(2).tensors);
  EXPECT_EQ(refusal_of(get("weights.safetensors")),
            "no \"opbound.checkpoint\" in __metadata__, expected a checkpoint that `opbound train` "
            "wrote");
  fs::remove(path(name(2)));
  fs::create_directory(path(name(2)));
  std::vector<std::string> refused;
  EXPECT_TRUE(CheckpointFolder(folder()).newest(refused));
  EXPECT_EQ(refused,
            (std::vector<std::string>{path(name(2)) + ": is a directory, expected a file"}));
}

/// A file as somebody else's program could write it: a head of this JSON with a right hash.
std::string with_right_hash(std::string json) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = json.size();
  std::string whole(reinterpret_cast<const char*>(&length), 8);
  whole += json;
  const std::string digits = sha256(std::as_bytes(std::span(whole)));
  return whole.replace(whole.find(std::string(64, '0')), 64, digits);
}

TEST_F(TrainCheckpoint, OtherVersionsAndStates) {
  put_two();
  const std::string zeros(64, '0');
  const auto head = [&](const std::string& version, const std::string& state) {
    return R"({"__metadata__":{"opbound.checkpoint":")" + version + R"(","sha256":")" + zeros +
           R"(","state":")" + state + R"("}})";
  };
  const std::string good = R"({\"step\":2,\"metadata\":{}})";
  EXPECT_EQ(refusal_of(with_right_hash(head("2", good))),
            "a checkpoint of version '2', expected version 1");
  const std::string expected =
      "state without step or metadata, expected a checkpoint that `opbound "
      "train` wrote";
  EXPECT_EQ(refusal_of(with_right_hash(head("1", "no JSON"))), expected);
  EXPECT_EQ(refusal_of(with_right_hash(head("1", R"({\"step\":2.5,\"metadata\":{}})"))), expected);
  EXPECT_EQ(refusal_of(with_right_hash(head("1", R"({\"step\":2})"))), expected);
  EXPECT_EQ(refusal_of(with_right_hash(head("1", "[]"))), expected);
  // The control: the same with nothing wrong.
  put(name(2), with_right_hash(head("1", good)));
  EXPECT_EQ(read_checkpoint(path(name(2))).step, 2);
  put(name(2), with_right_hash(head("1", good)).replace(20, 1, "X"));
  EXPECT_NE(refusal([&] { read_checkpoint(path(name(2))); }), "");
}

TEST_F(TrainCheckpoint, AllTornIsNone) {
  put_two();
  put(name(1), "torn");
  put(name(2), "torn");
  std::vector<std::string> refused;
  EXPECT_FALSE(CheckpointFolder(folder()).newest(refused));
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_TRUE(refused[0].starts_with(path(name(2))));
}

// ---- what may happen while one is written

/// Runs the action in a child of its own, which it may also kill; gives the status of waitpid.
int in_child_process(const std::function<void()>& action,
                     const std::function<void(pid_t)>& meanwhile = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    action();
    ::_exit(0);
  }
  if (meanwhile) meanwhile(child);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

void limit_file_size(std::size_t bytes) {
  const rlimit room{bytes, RLIM_INFINITY}, no_core{0, 0};
  ::setrlimit(RLIMIT_FSIZE, &room);
  ::setrlimit(RLIMIT_CORE, &no_core);
}

// The kernel ends a process at the byte that goes beyond its limit on files: at whatever byte that
// is, the older checkpoint is good, nothing is refused, and a next run goes on in the folder.
TEST_F(TrainCheckpoint, KilledAtAByte) {
  CheckpointFolder(folder()).write(state_at(1));
  const std::size_t size = get(name(1)).size();
  for (std::size_t at = 0; at < size; at += 1 + size / 30) {
    const int status = in_child_process([&] {
      limit_file_size(at);
      CheckpointFolder(folder()).write(state_at(2));
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << at;
    EXPECT_EQ(get("run/writing.partial").size(), at);
    std::vector<std::string> refused;
    const auto found = CheckpointFolder(folder()).newest(refused);
    ASSERT_TRUE(found && same(*found, state_at(1))) << at;
    EXPECT_TRUE(refused.empty()) << at;
  }
  CheckpointFolder(folder()).write(state_at(2));
  EXPECT_TRUE(same(read_checkpoint(path(name(2))), state_at(2)));
  EXPECT_FALSE(fs::exists(path("run/writing.partial")));
}

// A child that does nothing but write is killed after ever other times.
TEST_F(TrainCheckpoint, KilledWhileWriting) {
  CheckpointFolder(folder()).write(state_at(0, 4096));
  std::int64_t written = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const auto write_forever = [&] {
      CheckpointFolder checkpoints(folder());
      for (std::int64_t step = written + 1;; ++step) checkpoints.write(state_at(step, 4096));
    };
    const int status = in_child_process(write_forever, [trial](pid_t child) {
      const timespec pause{0, 1000000 + trial * 740003L};
      ::nanosleep(&pause, nullptr);
      ::kill(child, SIGKILL);
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    std::vector<std::string> refused;
    const auto found = CheckpointFolder(folder()).newest(refused);
    ASSERT_TRUE(found);
    EXPECT_TRUE(refused.empty());
    EXPECT_GE(found->step, written);
    EXPECT_TRUE(same(*found, state_at(found->step, 4096)));
    written = found->step;
  }
}

// A limit on the size of files stands for a full disk: what is written comes to an end the same
// way.
TEST_F(TrainCheckpoint, NoRoom) {
  CheckpointFolder(folder()).write(state_at(1));
  std::string content;
  const int status = in_child_process([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    limit_file_size(10000);
    CheckpointFolder checkpoints(folder());
    const std::string line = refusal([&] { checkpoints.write(state_at(2, 4096)); });
    const bool told =
        line == path(name(2)) +
                    ": cannot be written: File too large, expected a folder with room "
                    "that may be written";
    const bool gone = !fs::exists(folder() + "/writing.partial") && !fs::exists(path(name(2)));
    const bool later = refusal([&] { checkpoints.write(state_at(3)); }).empty();
    ::_exit(told && gone && later ? 0 : 1);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(same(read_checkpoint(path(name(1))), state_at(1)));
  EXPECT_TRUE(same(read_checkpoint(path(name(3))), state_at(3)));
}

TEST_F(TrainCheckpoint, AFolderThatCannotBeWritten) {
  put("file", "x");
  const std::string line = refusal([&] { CheckpointFolder(path("file")).write(state_at(1)); });
  EXPECT_TRUE(line.starts_with(path("file") + ": cannot be ")) << line;
  EXPECT_TRUE(line.ends_with(", expected a folder with room that may be written")) << line;
  EXPECT_EQ(get("file"), "x");

  CheckpointFolder(folder()).write(state_at(1));
  const int status = in_child_process([&] {  // as a user who may not write there
    fs::permissions(folder(), fs::perms{0555});
    fs::permissions(folder_, fs::perms{0755});
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    const std::string told = refusal([&] { CheckpointFolder(folder()).write(state_at(2)); });
    ::_exit(told == folder() +
                        ": cannot be written: Permission denied, expected a folder with room "
                        "that may be written"
                ? 0
                : 1);
  });
  fs::permissions(folder(), fs::perms{0755});
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(same(read_checkpoint(path(name(1))), state_at(1)));
}

TEST_F(TrainCheckpoint, TwoRunsDoNotShareAFolder) {
  CheckpointFolder first(folder());
  first.write(state_at(1));
  const std::string expected =
      folder() + ": another run writes its checkpoints here, expected a folder for each run";
  EXPECT_EQ(refusal([&] { CheckpointFolder(folder()).write(state_at(2)); }), expected);
  std::vector<std::string> refused;
  EXPECT_TRUE(CheckpointFolder(folder()).newest(refused));  // reading is free
  first.write(state_at(3));
}

}  // namespace
}  // namespace opbound::train
