#include "planner/request/option_list.hpp"

#include <algorithm>
#include <limits>

#include "core/base/error.hpp"
#include "core/io/text/parse_number.hpp"
#include "core/io/text/split.hpp"

namespace dtfm::request {
namespace {

bool has_capital(std::string_view word) {
  return std::any_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

}  // namespace

std::string_view Option::long_name() const {
  const std::size_t dashes = name.rfind("--");
  return dashes == std::string::npos ? std::string_view(name) : std::string_view(name).substr(dashes + 2);
}

bool Option::is_called(std::string_view name_with_dashes) const {
  const std::vector<std::string_view> names = io::split(name, ',');
  return std::find(names.begin(), names.end(), name_with_dashes) != names.end();
}

const Option* OptionList::find(std::string_view name_with_dashes) const {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const Option& it) { return it.is_called(name_with_dashes); });
  return found == options.end() ? nullptr : &*found;
}

Option* OptionList::find(std::string_view name_with_dashes) {
  return const_cast<Option*>(std::as_const(*this).find(name_with_dashes));
}

void set_texts(OptionList& list, const char* name, const char* description, const std::string& footer) {
  list.name = name;
  list.description = description;
  list.footer = footer;
}

OptionList& add_command(OptionList& list, const char* name, const char* help, const char* footer,
                        const std::function<void()>& on_choice) {
  OptionList& command = *list.commands.emplace_back(std::make_unique<OptionList>());
  set_texts(command, name, help, footer);
  command.on_choice = on_choice;
  return command;
}

Option& add(OptionList& list, Option option) {
  option.heading = list.heading;
  return list.options.emplace_back(std::move(option));
}

Option& add_argument(OptionList& list, const char* name, const char* help, std::string& value) {
  return add(list, {.kind = OptionKind::argument,
                    .name = name,
                    .help = help,
                    .set = [&value](const std::vector<std::string>& texts) { value = texts.at(0); }});
}

Option& add_argument(OptionList& list, const char* name, const char* help, std::vector<std::string>& values) {
  return add(list, {.kind = OptionKind::argument,
                    .name = name,
                    .help = help,
                    .may_repeat = true,
                    .set = [&values](const std::vector<std::string>& texts) {
                      values.insert(values.end(), texts.begin(), texts.end());
                    }});
}

Option& add_flag(OptionList& list, const char* name, const char* help) {
  return add(list, {.kind = OptionKind::flag, .name = name, .help = help, .set = [](const auto&) {}});
}

Option& add_flag(OptionList& list, const char* name, const char* help, bool& flag) {
  return add(list, {.kind = OptionKind::flag, .name = name, .help = help, .set = [&flag](const auto&) {
                      flag = true;
                    }});
}

Option& add_option(OptionList& list, const char* name, const char* value, const std::string& help,
                   const std::function<void(const std::string&)>& set) {
  return add(list, {.name = name,
                    .values = value,
                    .help = help,
                    .set = [set](const std::vector<std::string>& texts) { set(texts.at(0)); }});
}

Option& add_pair_option(OptionList& list, const char* name, const char* values, const char* help,
                        const std::function<void(const std::string&, const std::string&)>& set) {
  return add(list,
             {.name = name, .values = values, .help = help, .set = [set](const std::vector<std::string>& it) {
                set(it.at(0), it.at(1));
              }});
}

Option& add_repeatable_option(OptionList& list, const char* name, const char* value, const char* help,
                              const std::function<void(const std::string&)>& set) {
  Option& option = add_option(list, name, value, help, set);
  option.may_repeat = true;
  return option;
}

void set_completion_values(Option& option, const std::vector<std::string>& values) {
  option.choices = values;
}

std::vector<std::string> completion_values(const Option& option) {
  std::vector<std::string> values;
  for (const std::string_view word : io::split(option.values, '|'))
    if (!word.empty() && !has_capital(word)) values.emplace_back(word);
  values.insert(values.end(), option.choices.begin(), option.choices.end());
  return values;
}

void begin_group(OptionList& list, const char* heading) {
  list.heading = heading;
}

void add_threads_option(OptionList& list, int cores, int& threads) {
  constexpr int max_threads = 1024;
  threads = std::min(cores, max_threads);
  add_option(
      list, "--threads", "N",
      "number of threads, which does not change the result [cores available to the process]",
      [&](const std::string& text) { threads = io::parse_whole_number("--threads", text, 1, max_threads); });
}

void add_seed_option(OptionList& list, const char* help, std::uint64_t& seed) {
  add_option(list, "--seed", "N", help, [&](const std::string& text) {
    constexpr auto largest = std::numeric_limits<std::uint64_t>::max();
    seed = io::parse_whole_number<std::uint64_t>("--seed", text, 0, largest);
  });
}

void add_version_option(OptionList& list, const char* line) {
  list.version = line;
  add(list, {.kind = OptionKind::version, .name = "--version", .help = "prints the version and exits"});
}

void add_help_option(OptionList& list) {
  add(list, {.kind = OptionKind::help, .name = "-h,--help", .help = "prints this help and exits"});
}

bool is_given(const OptionList& list, std::string_view name) {
  const Option* option = list.find(name);
  DTFM_ASSERT(option != nullptr);
  return option->is_given();
}

void reject_options(const OptionList& list, std::initializer_list<const char*> options,
                    const std::string& why) {
  for (const char* option : options)
    if (is_given(list, option)) throw Error(option, why);
}

}  // namespace dtfm::request
