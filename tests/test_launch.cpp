// Which rank a process is: as every launcher says it, and what is no word of a launcher.
#include "distributed/launch.hpp"

#include <gtest/gtest.h>

#include "reports/error.hpp"
#include "tests/environment.hpp"

namespace opbound {
namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

class Launch : public testing::Test {
 protected:
  /// What launched() gives with these variables alone: "1 of 4, 1 here, by srun"; what it refuses.
  std::string with(const Variables& variables) {
    clean_.clear();
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    try {
      const std::optional<Launched> l = launched();
      if (!l) return "none";
      return std::to_string(l->rank) + " of " + std::to_string(l->size) + ", " +
             std::to_string(l->local_rank) + " here, by " + l->by;
    } catch (const InputError& e) {
      return e.what();
    }
  }

  Environment clean_{{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                      "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                      "MPI_LOCALNRANKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                      "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OPBOUND_TIMEOUT"}};
};

TEST_F(Launch, EveryLauncherIsRead) {
  EXPECT_EQ(with({}), "none");
  EXPECT_EQ(with({{"OMPI_COMM_WORLD_RANK", "3"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "3 of 4, 1 here, by mpirun");
  EXPECT_EQ(with({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), "0 of 1, 0 here, by mpirun");
  EXPECT_EQ(with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "1"}}),
            "1 of 2, 1 here, by srun");
  EXPECT_EQ(with({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}),
            "1 of 2, 0 here, by torchrun");
}

/// Open MPI in a job of Slurm: its own words count, and half of another launcher's does not.
TEST_F(Launch, TheFirstThatIsWholeCounts) {
  const Variables ours{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  Variables all = ours;
  all.insert(all.end(), {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"RANK", "7"}});
  EXPECT_EQ(with(all), "1 of 2, 0 here, by mpirun");
  EXPECT_EQ(with({{"PMI_RANK", "7"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}}),
            "1 of 2, 0 here, by torchrun");
}

TEST_F(Launch, HalfOfALaunchersWordsIsRefused) {
  EXPECT_EQ(with({{"RANK", "0"}}),
            "RANK: set without WORLD_SIZE, expected both, as a launcher sets them, or none");
  EXPECT_EQ(with({{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}}),
            "WORLD_SIZE: set without RANK, expected both, as a launcher sets them, or none");
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                           "SLURM_STEP_NUM_TASKS"})
    EXPECT_EQ(with({{name, "1"}}).find(std::string(name) + ": set without "), 0U) << name;
}

/// A batch script of Slurm is process 0 of the job: one rank. No other process is one.
TEST_F(Launch, ABatchScriptIsOneRank) {
  EXPECT_EQ(with({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}), "none");
  EXPECT_EQ(with({{"SLURM_PROCID", "3"}}),
            "SLURM_PROCID: set without SLURM_STEP_NUM_TASKS, expected both, as a launcher sets "
            "them, or none");
}

TEST_F(Launch, WhatIsNoPlaceIsRefused) {
  EXPECT_EQ(with({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
            "RANK: 4, expected a rank below WORLD_SIZE, 4");
  EXPECT_EQ(with({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
            "SLURM_PROCID: 2, expected a rank below SLURM_STEP_NUM_TASKS, 2");
  EXPECT_EQ(with({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "4"}}),
            "LOCAL_RANK: 4, expected a rank below WORLD_SIZE, 4");
  EXPECT_EQ(
      with({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
      "LOCAL_RANK: 2, expected a rank below LOCAL_WORLD_SIZE, 2");
  EXPECT_EQ(with({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "8"}}),
            "LOCAL_WORLD_SIZE: 8, expected at most WORLD_SIZE, 4");
}

TEST_F(Launch, WhatIsNoNumberIsRefused) {
  for (const char* word : {"", "x", "1x", "-1", "1.5", " 1", "99999999999"}) {
    EXPECT_EQ(with({{"RANK", word}, {"WORLD_SIZE", "4"}}),
              "RANK: '" + std::string(word) + "', expected a whole number from 0 on");
    EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", word}}),
              "WORLD_SIZE: '" + std::string(word) + "', expected a whole number from 1 on");
    EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", word}}),
              "LOCAL_RANK: '" + std::string(word) + "', expected a whole number from 0 on");
  }
  EXPECT_EQ(with({{"RANK", "0"}, {"WORLD_SIZE", "0"}}),
            "WORLD_SIZE: '0', expected a whole number from 1 on");
}

TEST_F(Launch, PatienceIsANumberOfSeconds) {
  EXPECT_EQ(patience(), 600);
  setenv("OPBOUND_TIMEOUT", "2.5", 1);
  EXPECT_EQ(patience(), 2.5);
  for (const char* word : {"", "0", "nan", "inf", "-1", "1e7", "5s"}) {
    setenv("OPBOUND_TIMEOUT", word, 1);
    EXPECT_THROW(patience(), InputError) << word;
  }
}

}  // namespace
}  // namespace opbound
