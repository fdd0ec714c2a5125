// Formats a plan: tables and a drawing, or JSON.
#pragma once

#include "launch/plan/described_model.h"
#include "launch/plan/plan_rows.h"

#include <string>

namespace tp {

std::string plan_text(const DescribedModel& model, const PlanResult& result);
std::string plan_json(const DescribedModel& model, const PlanResult& result);

}  // namespace tp
