CREATE OR REPLACE TEMPORARY MACRO days_in_force(_t) AS LIST_TRANSFORM(
  getvariable('slice_days_of_each'),
  LAMBDA days : LIST_MAX(LIST_FILTER(days, LAMBDA day : day <= TRY_CAST(CAST(_t AS TIMESTAMPTZ) AS DATE)))
)
