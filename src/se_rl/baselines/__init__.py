"""What a learned policy is held against: schedules, the cross-sectional ridge and the perfect-foresight bound."""
