// Recorded values of a link as CSV: a line has a time and values; a value holds until the next line's time.
#pragma once

#include <string>

#include "planner/io/text/yaml_reader.hpp"
#include "simulator/io/folder_files.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::io {

struct TraceFormat {
  bool relative = false;
  Unit time = time_unit("s"), value{"", 0};
  double reference = 1;  // in base units: what a relative trace is relative to
  std::string column;    // name, or number from 1; empty: the second of two
  bool repeat = false;
  double period = 0;  // of a repeated trace; 0: the last value lasts as long as the one before it
};

/// The entry {file, kind: relative | absolute, unit, column, time_unit, repeat, reference} of a scenario:
///   kind: relative   the values are factors; with `unit` and `reference: 1 Gbps`, values ÷ reference are
///   kind: absolute   the values are rates or times in `unit`, in place of what the topology says
///   column           the name of the column, or its number; not needed where there are two
///   time_unit        of the first column; default s
///   repeat           true, or the time after which it all comes again (by default the last value lasts as
///                    long as the one before it)
/// Throws Error with the position in either file.
sim::Trace read_trace(const YamlValue& value, sim::LinkTrace::Quantity quantity, FolderFiles& files);

/// Of several lines with one time the last counts. Throws Error with file:line:column: no values, time going
/// back, a value that is missing, negative or no number.
sim::Trace parse_trace(std::string text, const std::string& file, const TraceFormat& format);

}  // namespace dtfm::io
