"""What a plan finds before anything is sent: wrong data, models and attacks that do not fit."""
