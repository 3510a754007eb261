"""What an operator does with a store: look, verify, repair, restore. Without torch."""
