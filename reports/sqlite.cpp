#include "reports/sqlite.hpp"

#include <sqlite3.h>

#include <limits>

#include "reports/error.hpp"

namespace opbound::sqlite {

Database::Database(std::string path, bool make, int patience_ms, std::string expected)
    : path_(std::move(path)), expected_(std::move(expected)) {
  // Also a reader may have to undo what a writer that was killed left behind.
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE | (make ? SQLITE_OPEN_CREATE : 0);
  sqlite3* handle = nullptr;
  const int status = sqlite3_open_v2(path_.c_str(), &handle, flags, nullptr);
  handle_.reset(handle);
  if (status != SQLITE_OK) refuse(status);
  sqlite3_busy_timeout(handle, patience_ms);
  // A file that somebody sent is read, not run: no trigger that answers to what is written, no view
  // that stands in a table's place and never ends, no trust in functions that its schema calls.
  for (const int off : {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                        SQLITE_DBCONFIG_TRUSTED_SCHEMA})
    sqlite3_db_config(handle, off, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
}

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

void Database::execute(const char* sql) {
  const int status = sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) refuse(status);
}

std::int64_t Database::number(const char* sql) {
  Statement statement(*this, sql);
  statement.step();
  return static_cast<std::int64_t>(statement.number(0));
}

std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(handle()); }

void Database::refuse(int status) const {
  constexpr int primary = 0xff;  // the rest of an extended code says more of the same
  switch (status & primary) {
    case SQLITE_NOTADB:
      throw InputError(path_, "is no SQLite database", expected_);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw InputError(path_, "is held by another process", "one that finishes: try again");
    case SQLITE_READONLY:
      throw InputError(path_, "cannot be written", "a file and folder that may be written");
    case SQLITE_CORRUPT:
      throw InputError(path_, "is a damaged SQLite database", "a copy that is whole");
    default:
      throw InputError(path_, sqlite3_errstr(status),
                       expected_ + " and that can be read and written");
  }
}

Statement::Statement(Database& database, const char* sql) : database_(database) {
  sqlite3_stmt* statement = nullptr;
  const int status = sqlite3_prepare_v2(database.handle(), sql, -1, &statement, nullptr);
  statement_.reset(statement);
  check(status);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::check(int status) const {
  if (status != SQLITE_OK) database_.refuse(status);
}

Statement& Statement::bind(std::string_view text) {
  check(sqlite3_bind_text64(statement_.get(), ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(std::uint64_t number) {
  check(sqlite3_bind_int64(statement_.get(), ++bound_, static_cast<sqlite3_int64>(number)));
  return *this;
}

Statement& Statement::bind(double number) {
  check(sqlite3_bind_double(statement_.get(), ++bound_, number));
  return *this;
}

Statement& Statement::bind_bytes(std::string_view bytes) {
  const char* const data = bytes.empty() ? "" : bytes.data();  // a null pointer would be a null
  check(sqlite3_bind_blob64(statement_.get(), ++bound_, data, bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

bool Statement::step() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  if (status != SQLITE_DONE) database_.refuse(status);
  return false;
}

void Statement::reset() {
  sqlite3_reset(statement_.get());  // what went wrong was told when it did
  bound_ = 0;
}

std::string Statement::text(int column) const {
  const auto* text = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return text == nullptr ? "" : std::string(text, text + size);
}

std::uint64_t Statement::number(int column) const {
  return static_cast<std::uint64_t>(sqlite3_column_int64(statement_.get(), column));
}

double Statement::real(int column) const {
  return is_null(column) ? std::numeric_limits<double>::quiet_NaN()
                         : sqlite3_column_double(statement_.get(), column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::string_view Statement::bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

Transaction::~Transaction() {
  if (!committed_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

}  // namespace opbound::sqlite
