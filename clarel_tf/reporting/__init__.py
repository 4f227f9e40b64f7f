"""Results for people: tables, figures and the report page, beside published values."""
