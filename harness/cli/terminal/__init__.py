"""What the command line draws on a terminal: tables that fit its width, and names shortened to fit."""
