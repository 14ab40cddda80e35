"""What the machine has, who holds it, and what a load will take."""
